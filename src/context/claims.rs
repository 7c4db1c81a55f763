//! Without a user API: the context comes from the token's own claims, by the same mapping.

use std::sync::Arc;

use super::load::Lifetimes;
use super::mapper::MapError;
use super::shared::Shared;
use super::view::View;
use crate::clock::{Expiry, Now};
use crate::model::{Code, Refusal, UserContext, VerifiedToken};

/// The context of `token`. What its claims do not give is the caller's matter: a denial;
/// a machine that has no time to map them is not.
pub(super) async fn resolve(
    shared: &Arc<Shared>,
    view: &View,
    lifetimes: &Lifetimes,
    token: &Arc<VerifiedToken>,
    now: &Now,
) -> Result<Arc<UserContext>, Refusal> {
    let ends = Expiry::after(now, lifetimes.ttl);
    view.of_claims(shared, token, ends).await.map_err(|error| match error {
        MapError::Undefined | MapError::NoObject => {
            Refusal::new(Code::UnknownUser, "the mapping rule makes no user of the token's claims")
        }
        MapError::Failed => Refusal::new(Code::PolicyError, error.as_str()),
        MapError::Limit => Refusal::new(Code::EvaluationLimit, error.as_str()),
        MapError::Starved => Refusal::new(Code::Overloaded, error.as_str()),
    })
}
