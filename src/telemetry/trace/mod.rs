//! Tracing: one Check's place in its caller's trace, and the spans that are made of it.
//!
//! No span is made while a Check is decided. What the journey keeps anyway (and, where the Check
//! may be told of, when each stage began) is handed to a bounded queue at the Check's end, and a
//! task makes spans of it and sends them. Whether a Check is told of is decided at its start from
//! its caller's word, and once more at its end where denials, errors or slow Checks are always
//! wanted.
//!
//! | file | what |
//! |---|---|
//! | `config` | the section `tracing` |
//! | `context` | `traceparent`, `tracestate`, B3: read and written |
//! | `tracer` | sampling, ids, the end of a Check |
//! | `live` | the Check that a task works for; calls to dependencies |
//! | `spans` | ended Check → spans |
//! | `export` | the queue, and the collector |

mod config;
mod context;
mod export;
mod live;
mod spans;
mod tracer;

#[cfg(test)]
mod tests;

use http::header::HeaderValue;

pub use config::{AlwaysConfig, Propagation, Protocol, Sampler, TracingConfig};
pub use context::{Fields, Parent, extract};
pub use export::{Collector, CollectorError, Exporting};
pub use live::{
    Calling, Current, Live, Told, call, carry, current, current_trace_id, enter, stage, wait_for,
};
pub use opentelemetry::KeyValue;
pub use tracer::{Ended, Tracer};

/// One Check's place in a trace.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The trace; the caller's, where it named one.
    pub trace_id: u128,
    /// The Check's own span.
    pub span_id: u64,
    /// The caller's span.
    pub parent: Option<u64>,
    /// Whether it is told of, whatever its end.
    pub sampled: bool,
    /// The caller's `tracestate`, passed on.
    pub state: Option<HeaderValue>,
}

impl Trace {
    /// The trace id as people look for it: 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        hex_id(self.trace_id)
    }
}

/// A trace id as people look for it: 32 hexadecimal digits.
#[must_use]
pub fn hex_id(trace_id: u128) -> String {
    format!("{trace_id:032x}")
}
