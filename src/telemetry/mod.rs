//! Typed metrics. Names and labels are stable; `deploy/README.md` lists them.

mod cache;
mod calls;
mod dependency;
mod in_force;
mod issuers;
mod labels;
mod log;
mod metrics;
mod process;

pub use cache::{CacheSize, CacheStats};
pub use calls::Calls;
pub use dependency::{BreakerState, DependencyHealth, DependencyState};
pub use in_force::InForce;
pub use issuers::HeldKeys;
pub use labels::{CallOutcome, DependencyName};
pub use log::{LogConfig, LogFormat, LogLevel, init as init_log};
pub use metrics::{CheckSeries, Metrics};
