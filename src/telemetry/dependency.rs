//! How dependencies fare, for those who show it.

use std::time::Duration;

use super::DependencyName;

/// Whether a dependency is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// It is called.
    Closed,
    /// One call is under way that says whether it is called again.
    HalfOpen,
    /// It is not called: it failed too often.
    Open,
}

impl BreakerState {
    /// The word for it, in logs and on `/ready?verbose`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }

    /// The value of `portcullis_dependency_breaker_state`.
    pub(super) fn gauge(self) -> i64 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }
}

/// How a dependency fares.
#[derive(Debug, Clone)]
pub struct DependencyState {
    /// Its name in metrics.
    pub name: DependencyName,
    /// Whether it is called.
    pub breaker: BreakerState,
    /// How long that has been so.
    pub since: Duration,
    /// How its last failure showed, and how long ago that was. It holds no secret.
    pub last_error: Option<(&'static str, Duration)>,
}

/// Tells how a dependency fares.
pub trait DependencyHealth: Send + Sync {
    /// Its state now.
    fn state(&self) -> DependencyState;
}
