//! What the token caches hold.

use std::sync::Arc;

use super::jwks::Key;
use crate::clock::{Expiry, Now};
use crate::model::{Refusal, VerifiedToken};
use crate::store::{Cached, Life};

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
        size_of::<Self>()
    }
}

/// About what `token` holds on to: its claims are there as values and as text.
pub(super) fn size_of_token(token: &VerifiedToken) -> usize {
    let lists = token.audiences.iter().chain(&token.scopes).map(|text| text.len() + 16);
    size_of::<Entry>()
        + size_of::<VerifiedToken>()
        + token.identity.fragment.json().len() * 2
        + token.claims_fragment.json().len() * 5
        + lists.sum::<usize>()
}
