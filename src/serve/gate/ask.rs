//! Questions of the decision API through the gate: the same limit, deadline, net under panics,
//! audit and metrics as a Check's.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::facts::{Facts, refused};
use super::traced::Traced;
use super::{Gate, Ticket};
use crate::model::{BodyForm, BoxFuture, Code, Door, Outcome, Record, Request};
use crate::serve::Arrival;
use crate::telemetry::trace;

impl Gate {
    /// Answers one question. `journey` decides, and tells what the answer shows beside the
    /// decision; nothing told is an error. `render` is called again, with a denial, if it panics.
    pub(in crate::serve) async fn ask<T: Send, R>(
        &self,
        request: &Request,
        route: &'static str,
        journey: impl for<'t> FnOnce(Arrival, &'t mut Record) -> BoxFuture<'t, (Outcome, Option<T>)>,
        render: impl Fn(&Outcome, &Facts, Option<&T>) -> R,
    ) -> R {
        let mut ticket = self.question(request, route);
        let (outcome, told) = match self.guard(&mut ticket, journey).await {
            Ok(answered) => answered,
            Err(outcome) => (outcome, None),
        };
        ticket.settle(&outcome, self);
        if told.is_some() && !matches!(outcome, Outcome::Unavailable(_)) {
            // A denial that was decided is an answer like another.
            ticket.status = 200;
        }
        let answer = AssertUnwindSafe(|| render(&outcome, &ticket.facts, told.as_ref()));
        if let Ok(answer) = std::panic::catch_unwind(answer) {
            return answer;
        }
        let outcome = self.panicked(&mut ticket);
        ticket.settle(&outcome, self);
        render(&outcome, &ticket.facts, None)
    }

    /// Opens a call that brings several questions. Each of them is told of by itself, so the call
    /// is told of only where it ends here.
    pub(in crate::serve) async fn open<T: Send, R>(
        &self,
        request: &Request,
        route: &'static str,
        journey: impl for<'t> FnOnce(Arrival, &'t mut Record) -> BoxFuture<'t, Result<T, Outcome>>,
        render: impl Fn(&Outcome, &Facts) -> R,
    ) -> Result<T, R> {
        let mut ticket = self.question(request, route);
        let outcome = match self.guard(&mut ticket, journey).await {
            Ok(Ok(opened)) => {
                ticket.dismissed = true;
                return Ok(opened);
            }
            Ok(Err(outcome)) | Err(outcome) => outcome,
        };
        ticket.settle(&outcome, self);
        Err(render(&outcome, &ticket.facts))
    }

    fn question(&self, request: &Request, route: &'static str) -> Ticket<'_> {
        let mut ticket = self.admit(Door::Api);
        ticket.form = BodyForm::Message;
        ticket.facts.describe(request);
        ticket.facts.record.route = Some(route.into());
        if let Some(tracer) = &self.tracer {
            ticket.trace(Traced::of_client(tracer, &request.headers));
        }
        ticket
    }

    /// Runs `journey` until the deadline.
    async fn guard<A>(
        &self,
        ticket: &mut Ticket<'_>,
        journey: impl for<'t> FnOnce(Arrival, &'t mut Record) -> BoxFuture<'t, A>,
    ) -> Result<A, Outcome> {
        if let Some(full) = self.full(ticket) {
            return Err(full);
        }
        let arrival = self.arrival(None, ticket);
        let within = ticket.traced.as_mut().map(|traced| traced.live(arrival.now));
        let journey =
            async { trace::enter(within, journey(arrival, &mut ticket.facts.record)).await };
        let guarded = AssertUnwindSafe(journey).catch_unwind();
        match tokio::time::timeout_at(arrival.deadline.into(), guarded).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(_)) => Err(self.panicked(ticket)),
            Err(_) => Err(refused(Code::DeadlineExceeded.into(), ticket.form)),
        }
    }
}
