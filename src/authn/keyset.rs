//! Keys of one issuer that serve together.

use std::sync::Arc;

use jsonwebtoken::Algorithm;

use super::jwks::{Key, Serial};
use crate::clock::{Expiry, Now};
use crate::model::CacheState;

/// A set that is never changed, only replaced.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    pub keys: Vec<Arc<Key>>,
    /// Until when they serve; `None` is for ever (keys from a file).
    pub serves_until: Option<Expiry>,
    /// Until when they are as the issuer wants them; past it what they verify is marked stale.
    pub fresh_until: Option<Expiry>,
    /// Moves whenever a key comes or goes.
    pub generation: u64,
}

impl KeySet {
    /// Whether there are keys that may still serve.
    pub(super) fn serves(&self, now: &Now) -> bool {
        !self.keys.is_empty() && !self.serves_until.is_some_and(|end| end.is_past(now))
    }

    /// `state`, or stale where the keys are past their freshness.
    pub(super) fn mark(&self, state: CacheState, now: &Now) -> CacheState {
        if self.fresh_until.is_some_and(|end| end.is_past(now)) { CacheState::Stale } else { state }
    }

    /// Whether the key `serial` is one of these. A key that a later fetch brings again stays the
    /// one that it was.
    pub(super) fn contains(&self, serial: Serial) -> bool {
        self.keys.iter().any(|known| known.serial == serial)
    }

    /// The keys that a token with this header may be signed with; without `kid` all that fit.
    pub(super) fn candidates<'a>(
        &'a self,
        kid: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a Arc<Key>> {
        let named = move |key: &Key| kid.is_none() || key.kid.as_deref() == kid;
        self.keys.iter().filter(move |key| named(key) && key.algorithms.contains(&algorithm))
    }

    /// Whether a key of that `kid` is there, for whatever algorithm.
    pub(super) fn has_kid(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }
}
