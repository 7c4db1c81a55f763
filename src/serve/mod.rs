//! The doors: what Envoy, probes and scrapers talk to.
//!
//! [`bind`] opens every address, [`run`] serves until a signal and drains. The check door turns
//! wire messages into [`crate::model::Request`]s and outcomes into wire messages; what one Check
//! is (limit, deadline, panic, audit, metrics) is [`Gate`]'s, the same for every door.

pub mod config;
mod connection;
pub mod control;
mod drain;
mod event_loops;
mod executor;
mod ext_authz;
mod gate;
mod gathered;
mod http;
mod listener;
mod ready;
mod tls;
mod turn;

use std::time::Instant;

pub use drain::{Doors, Drained, ServeError, Shutdown, run};
pub use event_loops::EventLoops;
pub use ext_authz::answer;
pub use gate::{Facts, Gate, Retained, describe};
pub use listener::{BindError, Bound, Bounds, bind};
pub use ready::{Part, Readiness, Ready};
pub use tls::{Certificates, Secured};

use crate::check::ask::Desk;
use crate::clock::Now;
use crate::model::{BoxFuture, Outcome, Record, Request};

/// When a Check came and until when it must be decided.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The Check's own time; everything it decides by time uses this reading.
    pub now: Now,
    /// Whoever waits for something waits no longer. The gate cuts the Check there anyway.
    pub deadline: Instant,
}

/// Decides one request: the journey.
pub trait Decide: Send + Sync + 'static {
    /// Decides now, from memory, or says what is to be awaited.
    ///
    /// `record` holds the request's own fields already; the journey adds what it learns as it
    /// learns it, so that a Check which is cut short is still told of in full.
    fn decide<'a>(
        &'a self,
        request: &'a Request,
        arrival: Arrival,
        record: &'a mut Record,
    ) -> Step<'a>;
}

/// What the decision API answers by.
pub trait Asks: std::fmt::Debug + Send + Sync + 'static {
    /// What is in force now; a question holds on to it until it is answered.
    fn desk(&self) -> Option<std::sync::Arc<Desk>>;
}

/// How far a decision came without waiting.
pub enum Step<'a> {
    /// All the way.
    Ready(Outcome),
    /// Something must be loaded or computed.
    Pending(BoxFuture<'a, Outcome>),
}

impl std::fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready(_) => "Ready",
            Self::Pending(_) => "Pending",
        })
    }
}

#[cfg(test)]
mod tests;
