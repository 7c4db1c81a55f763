//! Typed metrics, logs and traces. Names and labels are stable; `deploy/README.md` lists them.

mod cache;
mod calls;
mod degraded;
mod dependency;
mod exemplars;
mod in_force;
mod invalidations;
mod issuers;
mod labels;
mod lines;
mod log;
mod metrics;
mod process;
pub mod trace;

pub use cache::{CacheSize, CacheStats};
pub use calls::Calls;
pub use degraded::Degraded;
pub use dependency::{BreakerState, DependencyHealth, DependencyState};
pub use exemplars::SpanCounts;
pub use in_force::InForce;
pub use invalidations::InvalidationMetrics;
pub use issuers::HeldKeys;
pub use labels::{CallOutcome, DependencyName};
pub use log::{LogConfig, LogFormat, LogHandle, LogLevel, init as init_log};
pub use metrics::{CheckSeries, Metrics};
