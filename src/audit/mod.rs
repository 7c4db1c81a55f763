//! One event per Check, beside the Check and never awaited by it.
//!
//! [`Audit::emit`] puts an event into a bounded queue; a thread of its own encodes and writes in
//! batches. A full queue and a failing sink lose events visibly, by a counter each.

pub mod config;
mod encode;
mod event;
mod file;
mod writer;

pub use event::{Event, Kind, SubjectHash};
pub use writer::{Audit, AuditError};

#[cfg(test)]
mod tests;
