//! Verified token → user context.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::{BoxFuture, CacheState, Refusal, Secret, UserContext, VerifiedToken};

/// A user context with where it came from.
pub type Resolved = (Arc<UserContext>, CacheState);

/// Resolves user contexts.
pub trait Contexts: Send + Sync {
    /// `input.user` of a caller without credential; `None` leaves it absent.
    fn anonymous(&self) -> Option<Arc<UserContext>>;

    /// From memory alone; `None` where it must be loaded.
    fn peek(&self, token: &Arc<VerifiedToken>, now: &Now) -> Option<Result<Resolved, Refusal>>;

    /// Loads what is missing; one load per user however many wait. The caller bounds the time
    /// that this waiter waits, not the load.
    fn resolve<'a>(
        &'a self,
        token: &'a Arc<VerifiedToken>,
        bearer: &'a Secret<String>,
        now: Now,
    ) -> BoxFuture<'a, Result<Resolved, Refusal>>;
}
