//! Decision → outcome: pure, total, fail closed.
//!
//! Two moments: [`Finisher`] works once per evaluation (stamping, serialising and checking what
//! a policy wants to send), [`Responder`] once per Check (what is removed, which status, which
//! challenge). Neither does I/O.

mod config;
mod document;
mod finish;
mod headers;
mod outcome;

pub use config::HeadersConfig;
pub use finish::Finisher;
pub use headers::{Managed, is_reserved};
pub use outcome::{Responder, Terms};
