//! A Check's trace, from its arrival to its end.

use std::sync::Arc;
use std::time::Duration;

use super::Ticket;
use crate::clock::Now;
use crate::model::{Headers, Timeline};
use crate::telemetry::trace::{Current, Ended, Fields, Live, Trace, Tracer};

/// A Check that is traced, sampled or not.
pub(super) struct Traced<'g> {
    tracer: &'g Arc<Tracer>,
    trace: Trace,
    /// Its asynchronous part, once there is one.
    live: Option<Arc<Live>>,
}

impl<'g> Traced<'g> {
    /// Of a Check, whose call's own metadata are the caller's word.
    pub(super) fn of_call(tracer: &'g Arc<Tracer>, metadata: &impl Fields) -> Self {
        Self { trace: tracer.begin(metadata), tracer, live: None }
    }

    /// Of a question that a client asks by itself.
    pub(super) fn of_client(tracer: &'g Arc<Tracer>, headers: &impl Fields) -> Self {
        Self { trace: tracer.begin_for_client(headers), tracer, live: None }
    }

    /// The client's own headers are known.
    pub(super) fn learn(&mut self, headers: &Headers) {
        self.tracer.learn(&mut self.trace, headers);
    }

    /// Where the times of its stages are kept, if anybody may hear of them.
    pub(super) fn timeline(&self) -> Option<Box<Timeline>> {
        self.tracer.timeline(&self.trace)
    }

    /// It cannot be decided from memory: what follows happens within it.
    pub(super) fn live(&mut self, at: Now) -> Current {
        let live = self.live.get_or_insert_with(|| self.tracer.live(&self.trace, at));
        live.current()
    }

    /// The trace id, as logs show it.
    pub(super) fn id(&self) -> String {
        self.trace.id()
    }

    /// It has ended.
    pub(super) fn end(self, ticket: &Ticket<'_>, took: Duration) {
        let ended = Ended {
            at: ticket.now,
            took,
            outcome: ticket.kind.as_str(),
            reason: &ticket.reason,
            status: ticket.status,
            record: &ticket.facts.record,
            live: self.live.as_deref(),
        };
        if self.tracer.end(&self.trace, &ended) {
            let (metrics, id) = (&ticket.gate.metrics, self.trace.trace_id);
            metrics.exemplars(ended.outcome, took, &ticket.facts.record.stages, id, &ticket.now);
        }
    }
}
