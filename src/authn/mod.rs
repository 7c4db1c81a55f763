//! Credential → verified token.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::{BoxFuture, CacheState, Demand, Refusal, Secret, VerifiedToken};

/// A verified token with where the verification came from.
pub type Verified = (Arc<VerifiedToken>, CacheState);

/// Verifies bearer tokens. Both ways check the route's demand and the token's times at `now`
/// on every call, whatever was cached.
pub trait Authenticator: Send + Sync {
    /// From memory alone; `None` where signature or keys must be looked at.
    fn peek(&self, token: &str, demand: &Demand, now: &Now) -> Option<Result<Verified, Refusal>>;

    /// Verifies, fetching keys where that is needed. The caller bounds the time.
    fn resolve<'a>(
        &'a self,
        token: &'a Secret<String>,
        demand: &'a Demand,
        now: Now,
    ) -> BoxFuture<'a, Result<Verified, Refusal>>;
}
