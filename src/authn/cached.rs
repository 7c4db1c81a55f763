//! What the token caches hold.

use std::sync::Arc;

use serde_json::Value;

use super::alike::is_common;
use super::jwks::Key;
use crate::clock::{Expiry, Now};
use crate::model::{Refusal, VerifiedToken};
use crate::store::{Cached, Life, heap};

/// A verified token with the key that verified it.
#[derive(Debug)]
pub(super) struct Entry {
    pub token: Arc<VerifiedToken>,
    /// Place of its issuer.
    pub issuer: usize,
    /// When the key leaves the issuer's set the entry is dead.
    pub key: Arc<Key>,
    /// End of the cache's lifetime or of the token, whichever is first.
    pub expires: Expiry,
    /// What invalidations end it by.
    pub life: Life,
    pub bytes: usize,
}

impl Cached for Arc<Entry> {
    fn is_past(&self, now: &Now) -> bool {
        self.expires.is_past(now) || self.life.is_over()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A rejected token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejected {
    pub refusal: Refusal,
    /// Issuer and generation of the keys that the rejection rests on, if it rests on keys.
    pub keys: Option<(usize, u64)>,
    /// Epoch of the generations in which it was made. Any invalidation has it looked at again.
    pub epoch: u64,
    pub expires: Expiry,
}

impl Cached for Rejected {
    fn is_past(&self, now: &Now) -> bool {
        self.expires.is_past(now)
    }

    fn bytes(&self) -> usize {
        // All of it is in its place in the cache.
        0
    }
}

/// What an entry of `token` holds on to. What its issuer's tokens have alike is the first one's.
pub(super) fn size_of_token(token: &VerifiedToken) -> usize {
    let (identity, claims) = (&token.identity, &token.claims);
    let texts = [identity.fragment.json(), token.claims_fragment.json()];
    let subject = identity.subject.as_ref().map_or(0, |subject| heap::shared(subject.len()));
    let client = identity.client_id.as_ref().filter(|client| !is_common(client));
    let list = |list: &Arc<[Box<str>]>| {
        let entries = || list.iter().map(|text| heap::block(text.len())).sum::<usize>();
        if is_common(list) { 0 } else { heap::shared(size_of_val(&**list)) + entries() }
    };
    heap::shared(size_of::<Entry>())
        + heap::shared(size_of::<VerifiedToken>())
        + texts.map(|text| heap::shared(text.len())).into_iter().sum::<usize>()
        + subject
        + client.map_or(0, |client| heap::shared(client.len()))
        + heap::block(claims.values().len() * size_of::<(Arc<str>, Value)>())
        + claims.values().map(heap::json).sum::<usize>()
        + list(&token.audiences)
        + list(&token.scopes)
}
