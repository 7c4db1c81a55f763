//! Typed metrics. Names and labels are stable; `deploy/README.md` lists them.

mod cache;
mod labels;
mod metrics;

pub use cache::{CacheSize, CacheStats};
pub use labels::{CallOutcome, DependencyName};
pub use metrics::{CheckSeries, Metrics};
