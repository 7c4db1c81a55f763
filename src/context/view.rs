//! What a profile, or a token's claims, come to for one token under one mapping.

use std::sync::Arc;

use serde_json::Value;

use super::mapper::{MapError, Mapper};
use super::profile::{Answer, Profile};
use super::shared::{MapKey, Mapped, Shared};
use crate::clock::{Expiry, Now};
use crate::model::{Code, Digest, Fragment, Hasher, Refusal, UserContext, VerifiedToken};

/// What becomes of one token's user: his context, or a denial.
pub(super) type Outcome = Result<Arc<UserContext>, Refusal>;

/// The denial of a user that the user API does not know.
pub(super) const UNKNOWN: Refusal =
    Refusal::new(Code::UnknownUser, "the user API knows no such user");

/// The mapping, with a hash of it and of the configuration around it.
pub(super) struct View {
    /// A context made under another number does not serve here.
    pub(super) number: u32,
    mapper: Option<Arc<dyn Mapper>>,
}

impl View {
    /// The mapping `mapper` of the source that `source` hashes.
    pub(super) fn new(shared: &Shared, source: &Digest, mapper: Option<Arc<dyn Mapper>>) -> Self {
        let revision = mapper.as_ref().map(|mapper| mapper.revision().as_bytes());
        let digest = Hasher::new("view").part(source.as_bytes()).optional(revision).finish();
        Self { number: shared.view(&digest), mapper }
    }

    /// What `profile` comes to for `token`, kept for the token's next Checks. `stale` says that
    /// the profile is past its end.
    pub(super) async fn of_profile(
        &self,
        shared: &Arc<Shared>,
        token: &Arc<VerifiedToken>,
        profile: &Arc<Profile>,
        stale: bool,
    ) -> Result<Outcome, MapError> {
        let serves = if stale { profile.state.stale_until } else { profile.expires };
        let ends = serves.min(token.expires);
        let epoch = shared.epoch();
        let keep = |outcome: &Outcome| {
            let mapped = Mapped {
                user: outcome.as_ref().ok().cloned(),
                profile: Some(Arc::clone(&profile.state)),
                epoch,
                ends,
                view: self.number,
                stale,
            };
            shared.contexts.insert(token.hash, mapped);
        };
        let Answer::Known { json, .. } = &profile.answer else {
            let outcome = Err(UNKNOWN);
            keep(&outcome);
            return Ok(outcome);
        };
        if let Some(mapped) = shared.peek_context(token, &shared.clock.now())
            && mapped.view == self.number
            && mapped.profile.as_ref().is_some_and(|kept| kept.serial == profile.state.serial)
        {
            return Ok(mapped.user.ok_or(UNKNOWN));
        }
        let expires = Some(if stale { ends } else { serves });
        let Some(mapper) = &self.mapper else {
            let fragment = Fragment::from_json(Arc::clone(json));
            let outcome = Ok(Arc::new(UserContext { fragment, expires, stale }));
            keep(&outcome);
            return Ok(outcome);
        };
        let key = MapKey {
            token: token.hash,
            view: self.number,
            profile: Some(profile.state.serial),
            stale,
        };
        let input = input_of(token, Some(json));
        let fragment = map(shared, key, mapper, input, expires, stale).await?;
        let outcome = Ok(fragment);
        keep(&outcome);
        Ok(outcome)
    }

    /// What the claims of `token` come to, for `lifetime` at most; kept like the other.
    pub(super) async fn of_claims(
        &self,
        shared: &Arc<Shared>,
        token: &Arc<VerifiedToken>,
        ends: Expiry,
    ) -> Result<Arc<UserContext>, MapError> {
        let epoch = shared.epoch();
        let context = match &self.mapper {
            None => {
                let fragment = token.claims.clone();
                Arc::new(UserContext { fragment, expires: Some(ends), stale: false })
            }
            Some(mapper) => {
                let input = input_of(token, None);
                let (token, view) = (token.hash, self.number);
                let key = MapKey { token, view, profile: None, stale: false };
                map(shared, key, mapper, input, Some(ends), false).await?
            }
        };
        let mapped = Mapped {
            user: Some(Arc::clone(&context)),
            profile: None,
            epoch,
            ends: ends.min(token.expires),
            view: self.number,
            stale: false,
        };
        shared.contexts.insert(token.hash, mapped);
        Ok(context)
    }
}

/// `{identity, profile, token}` as JSON text; what is absent is absent.
fn input_of(token: &VerifiedToken, profile: Option<&str>) -> String {
    let mut out = format!("{{\"identity\":{}", token.identity().json());
    let claims = token.claims.json();
    let claims = Some(&*claims).filter(|claims| *claims != "{}");
    for (name, part) in [("profile", profile), ("token", claims)] {
        if let Some(part) = part {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            out.push_str(part);
        }
    }
    out.push('}');
    out
}

/// Runs the rule once however many wait for it; off the runtime's own threads where it would hold
/// them up.
async fn map(
    shared: &Arc<Shared>,
    key: MapKey,
    mapper: &Arc<dyn Mapper>,
    input: String,
    expires: Option<Expiry>,
    stale: bool,
) -> Result<Arc<UserContext>, MapError> {
    let (mapper, now): (_, Now) = (Arc::clone(mapper), shared.clock.now());
    let evaluate = || async move {
        let user = if let Some(made) = mapper.map_here(&input, &now) {
            made?
        } else {
            let made = tokio::task::spawn_blocking(move || mapper.map(&input, &now)).await;
            made.map_err(|_| MapError::Failed)??
        };
        if !matches!(user, Value::Object(_)) {
            return Err(MapError::NoObject);
        }
        Ok(Arc::new(UserContext { fragment: Fragment::new(&user), expires, stale }))
    };
    let (_, made) = shared.mappings.join(key, evaluate).await;
    made.unwrap_or(Err(MapError::Failed))
}
