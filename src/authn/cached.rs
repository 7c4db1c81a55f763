//! What the token caches hold.

use std::sync::Arc;

use super::jwks::Serial;
use crate::clock::{Expiry, Now};
use crate::model::{Grant, Refusal, VerifiedToken};
use crate::store::{Alike, Cached, heap};

/// A verified token with the key that verified it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub token: Arc<VerifiedToken>,
    /// When the key leaves the issuer's set the entry is dead.
    pub key: Serial,
    /// End of the cache's lifetime or of the token, whichever is first.
    pub expires: Expiry,
    /// Epoch of the generations in which its verification began.
    pub epoch: u64,
    /// Place of its issuer.
    pub issuer: u32,
    bytes: u32,
}

impl Entry {
    pub(super) fn new(
        token: Arc<VerifiedToken>,
        key: Serial,
        issuer: usize,
        expires: Expiry,
        epoch: u64,
    ) -> Self {
        let issuer = u32::try_from(issuer).unwrap_or(u32::MAX);
        // What others share now they may not share later: counted once, so that as much is taken
        // off as was put on.
        let bytes = u32::try_from(size_of_token(&token)).unwrap_or(u32::MAX);
        Self { token, key, expires, epoch, issuer, bytes }
    }
}

impl Cached for Entry {
    fn is_past(&self, now: &Now) -> bool {
        self.expires.is_past(now)
    }

    fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
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
fn size_of_token(token: &Arc<VerifiedToken>) -> usize {
    let grant = &token.grant;
    let list = |list: &[Box<str>]| {
        heap::block(size_of_val(list))
            + list.iter().map(|text| heap::block(text.len())).sum::<usize>()
    };
    let own = || {
        let client = grant.client_id.as_ref();
        heap::shared(size_of::<Grant>())
            + client.map_or(0, |client| heap::shared(client.len()))
            + list(&grant.audiences)
            + list(&grant.scopes)
    };
    heap::shared(size_of::<VerifiedToken>())
        + heap::shared(token.subject.len())
        + heap::shared(token.claims.json().len())
        + if Alike::is_common(grant) { 0 } else { own() }
}
