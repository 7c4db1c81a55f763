//! Verified token → user context.
//!
//! [`Resolver`] looks in memory, then in the store, then asks the user API. What is kept and
//! shared is the API's answer, the *profile*, under issuer and subject; each token's *context*
//! is mapped from it and kept under the token's hash. A profile that is replaced, put out or
//! invalidated takes every context made of it along.
//!
//! | file | what |
//! |---|---|
//! | `config`, `problems` | the section `user_context` and what can be wrong with it |
//! | `resolver` | one request's way: memory, a load, or what may serve in spite of a failure |
//! | `load`, `record` | one load: store, then user API; a profile as the store holds it |
//! | `ask`, `user_api`, `json` | what is asked for a token, the call, what the answer means |
//! | `profile`, `shared` | what is kept, how long, and what ends it |
//! | `view`, `mapper`, `claims` | profile or claims → user, by the deployment's rule |

use std::sync::Arc;

use crate::clock::Now;
use crate::model::{BoxFuture, CacheState, Refusal, Secret, UserContext, VerifiedToken};

mod ask;
mod claims;
mod config;
mod json;
mod load;
mod mapper;
mod problems;
mod profile;
mod record;
mod resolver;
mod shared;
#[cfg(test)]
mod tests;
mod user_api;
mod view;

pub use config::{ApiKey, ContextConfig, Credential, Fold, OnFailure, Owner, Source, UserApi};
pub use mapper::{MapError, Mapper};
pub use resolver::Resolver;
pub use shared::Shared;

/// A user context with where it came from.
pub type Resolved = (Arc<UserContext>, CacheState);

/// Resolves user contexts.
pub trait Contexts: Send + Sync {
    /// `input.user` of a caller without credential; `None` leaves it absent.
    fn anonymous(&self) -> Option<Arc<UserContext>>;

    /// Whether verified callers have a user context at all; `input.user` is absent otherwise.
    fn has_users(&self) -> bool;

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
