//! The port to the state that replicas share.

use std::time::Duration;

use bytes::Bytes;

use crate::model::BoxFuture;

/// A store that did not do what it was asked. Its users treat it as a miss: nothing that is
/// decided may depend on the store being there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {0}")]
pub struct StoreError(pub &'static str);

/// Keys and values that end, shared by replicas. Values come back as they were set or not at
/// all; a store is not trusted beyond that, so whoever reads verifies.
///
/// An adapter bounds its own time; no call may wait for long.
pub trait Store: Send + Sync {
    /// The value of `key`, if it has not ended.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>>;

    /// Sets `key` for `ttl`, in place of what was there; a `ttl` of zero only forgets.
    fn set<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets `key`; nothing there is no error.
    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}
