//! Typed metrics. Names and labels are stable; `deploy/README.md` lists them.

mod cache;
mod dependency;
mod in_force;
mod invalidations;
mod labels;
mod log;
mod metrics;

pub use cache::{CacheSize, CacheStats};
pub use dependency::{BreakerState, DependencyHealth, DependencyState};
pub use in_force::InForce;
pub use invalidations::InvalidationMetrics;
pub use labels::{CallOutcome, DependencyName};
pub use log::{LogConfig, LogFormat, LogHandle, LogLevel, init as init_log};
pub use metrics::{CheckSeries, Metrics};
