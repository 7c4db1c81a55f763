//! What every Check has, whichever door it came through: an id, a limit, a deadline, a net under
//! panics, and exactly one audit event and one metric, written when its [`Ticket`] is dropped.
//! No other code emits them, so a Check that is cancelled cannot be forgotten and one that ends
//! well cannot be told of twice.

mod ask;
mod facts;
mod series;
mod traced;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::HeaderMap;

use self::facts::refused;
pub use self::facts::{Facts, Retained, describe};
use self::series::SeriesCache;
use self::traced::Traced;
use super::config::{CheckBudget, Limits};
use super::{Arrival, Decide, Step};
use crate::audit::{Audit, Event, Kind};
use crate::clock::{Clock, Now};
use crate::model::{BodyForm, Code, Door, Ids, Outcome, Reason, Record, Refusal, Request};
use crate::telemetry::Metrics;
use crate::telemetry::trace::{self, Tracer};

/// The one way from a door to a decision.
pub struct Gate {
    decide: Arc<dyn Decide>,
    clock: Clock,
    metrics: Arc<Metrics>,
    audit: Audit,
    series: SeriesCache,
    /// Nothing where Checks are not traced.
    tracer: Option<Arc<Tracer>>,
    limit: i64,
    budget: Duration,
    reserve: Duration,
    ids: Ids,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

/// A Check under way. Dropping it ends the Check.
struct Ticket<'g> {
    gate: &'g Gate,
    now: Now,
    /// What the Check ends as: *cancelled* until something better is known.
    kind: Kind,
    reason: Reason,
    status: u16,
    /// Form of an answer that the gate itself makes.
    form: BodyForm,
    /// What follows is told of in its place.
    dismissed: bool,
    facts: Facts,
    traced: Option<Traced<'g>>,
}

impl Gate {
    /// A gate in front of `decide`. `reasons` are the policies' own that become metric labels;
    /// others count as `other`.
    pub fn new(
        decide: Arc<dyn Decide>,
        clock: Clock,
        metrics: Arc<Metrics>,
        audit: Audit,
        limits: &Limits,
        budget: &CheckBudget,
        reasons: impl IntoIterator<Item = Arc<str>>,
    ) -> Self {
        Self {
            decide,
            series: SeriesCache::new(metrics.clone(), reasons),
            tracer: None,
            clock,
            metrics,
            audit,
            limit: i64::from(limits.max_in_flight),
            budget: budget.budget.0,
            reserve: budget.reserve.0,
            ids: Ids::default(),
        }
    }

    /// As it is, and Checks are traced.
    #[must_use]
    pub fn traced_by(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self { tracer, ..self }
    }

    /// From now on these reasons of policies are metric labels, and others are not: the policies
    /// were replaced.
    pub fn know_reasons(&self, reasons: impl IntoIterator<Item = Arc<str>>) {
        self.series.know(reasons);
    }

    /// Makes one Check: receives the request, decides it, renders the answer, and tells of it.
    ///
    /// `receive` yields the request, or how it could not be read. `timeout` is what the caller
    /// said it will wait, `metadata` what came with the call. `render` makes the door's answer; it is
    /// called again with a denial if it panics.
    pub async fn check<R>(
        &self,
        receive: impl Future<Output = Result<Request, Refusal>>,
        timeout: Option<Duration>,
        metadata: &HeaderMap,
        render: impl Fn(&Outcome, &Facts) -> R,
    ) -> R {
        let mut ticket = self.admit(Door::Check);
        if let Some(tracer) = &self.tracer {
            ticket.trace(Traced::of_call(tracer, metadata));
        }
        let outcome = if let Some(full) = self.full(&ticket) {
            full
        } else {
            self.decide_within(receive, timeout, &mut ticket).await
        };
        ticket.settle(&outcome, self);
        let answer = AssertUnwindSafe(|| render(&outcome, &ticket.facts));
        if let Ok(answer) = std::panic::catch_unwind(answer) {
            return answer;
        }
        let outcome = self.panicked(&mut ticket);
        ticket.settle(&outcome, self);
        render(&outcome, &ticket.facts)
    }

    /// The outcome where too many Checks are in flight.
    fn full(&self, ticket: &Ticket<'_>) -> Option<Outcome> {
        (self.metrics.in_flight.get() > self.limit).then(|| {
            self.metrics.shed.inc();
            refused(Code::Overloaded.into(), ticket.form)
        })
    }

    fn admit(&self, door: Door) -> Ticket<'_> {
        self.metrics.in_flight.inc();
        let check_id = self.ids.next();
        Ticket {
            gate: self,
            now: self.clock.now(),
            kind: Kind::Unavailable,
            reason: Code::Cancelled.into(),
            status: 503,
            form: BodyForm::Oauth,
            dismissed: false,
            facts: Facts::new(Record { check_id, door, ..Record::default() }),
            traced: None,
        }
    }

    async fn decide_within(
        &self,
        receive: impl Future<Output = Result<Request, Refusal>>,
        timeout: Option<Duration>,
        ticket: &mut Ticket<'_>,
    ) -> Outcome {
        let arrival = self.arrival(timeout, ticket);
        let ended = {
            // Pinned here, so that the layers around it move a pointer and not the Check.
            let journey = pin!(async {
                let request = match receive.await {
                    Ok(request) => request,
                    Err(refusal) => {
                        ticket.facts.record.detail = refusal.detail;
                        return refused(refusal, BodyForm::Oauth);
                    }
                };
                ticket.form = BodyForm::negotiate(BodyForm::Oauth, &request);
                ticket.facts.describe(&request);
                if let Some(traced) = &mut ticket.traced {
                    traced.learn(&request.headers);
                }
                match self.decide.decide(&request, arrival, &mut ticket.facts.record) {
                    Step::Ready(outcome) => outcome,
                    Step::Pending(outcome) => {
                        let within = ticket.traced.as_mut().map(|traced| traced.live(arrival.now));
                        trace::enter(within, outcome).await
                    }
                }
            });
            let guarded = AssertUnwindSafe(journey).catch_unwind();
            tokio::time::timeout_at(arrival.deadline.into(), guarded).await
        };
        match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => self.panicked(ticket),
            Err(_) => refused(Code::DeadlineExceeded.into(), ticket.form),
        }
    }

    fn arrival(&self, timeout: Option<Duration>, ticket: &Ticket<'_>) -> Arrival {
        let time = timeout.map_or(self.budget, |timeout| timeout.min(self.budget));
        // A caller in a hurry still gets half of its time used to decide.
        let time = time.saturating_sub(self.reserve).max(time / 2);
        let now = ticket.now;
        Arrival { now, deadline: now.mono.checked_add(time).unwrap_or(now.mono) }
    }

    fn panicked(&self, ticket: &mut Ticket<'_>) -> Outcome {
        self.metrics.panics.inc();
        let check_id = &*ticket.facts.record.check_id;
        let trace_id = ticket.traced.as_ref().map(Traced::id);
        tracing::error!(check_id, trace_id, "a Check panicked; it is denied, others go on");
        ticket.facts.record.detail = "panic";
        refused(Code::InternalError.into(), ticket.form)
    }
}

impl<'g> Ticket<'g> {
    /// Notes what the Check ends as.
    fn settle(&mut self, outcome: &Outcome, gate: &Gate) {
        self.kind = Kind::of(outcome);
        (self.reason, self.status) = match outcome {
            Outcome::Allow(allow) => (allow.reason.clone(), 200),
            Outcome::Deny(deny) => (deny.reason.clone(), deny.status),
            Outcome::Unavailable(unavailable) => (unavailable.reason.clone(), 503),
        };
        self.facts.hash_subject(&gate.audit);
        if let Some(timeline) = &mut self.facts.record.timeline {
            timeline.end();
        }
    }

    /// From here on it is traced.
    fn trace(&mut self, traced: Traced<'g>) {
        self.facts.record.timeline = traced.timeline();
        self.traced = Some(traced);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let gate = self.gate;
        gate.metrics.in_flight.dec();
        if self.dismissed {
            return;
        }
        let took = gate.clock.now().mono.saturating_duration_since(self.now.mono);
        if self.facts.subject_hash.is_none() {
            self.facts.hash_subject(&gate.audit);
        }
        for stage in &self.facts.record.stages {
            gate.metrics.stage(stage.stage, stage.took);
        }
        if self.kind != Kind::Unavailable && self.facts.record.mark().is_some() {
            for (part, state) in self.facts.record.grounds() {
                if let Some(mark) = state.mark() {
                    gate.metrics.degraded.count(part, mark);
                }
            }
        }
        let route = self.facts.record.route.as_ref();
        gate.series.observe(self.kind, &self.reason, route, took);
        if let Some(traced) = self.traced.take() {
            traced.end(self, took);
        }
        let caller = self.facts.record.caller_token.as_deref();
        gate.audit.emit(Event {
            caller_hash: caller.map(|token| gate.audit.subject_hash(token)),
            at: self.now,
            took,
            kind: self.kind,
            reason: self.reason.clone(),
            status: self.status,
            record: std::mem::take(&mut self.facts.record),
            subject_hash: self.facts.subject_hash,
            altered: self.facts.altered,
        });
    }
}
