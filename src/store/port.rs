//! The port to the state that replicas share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::model::BoxFuture;

/// A store that did not do what it was asked. Its users treat it as a miss: nothing that is
/// decided may depend on the store being there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {0}")]
pub struct StoreError(pub &'static str);

/// What the calls of a [`Store`] return.
pub type Storing<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Keys and values that end, and messages, shared by replicas. Values come back as they were set
/// or not at all; a store is not trusted beyond that, so whoever reads verifies.
///
/// An adapter bounds its own time; no call may wait for long. [`Store::subscribe`] alone lasts.
pub trait Store: Send + Sync {
    /// Whether what is set may be found by others, or by this process after a restart. Where not,
    /// nothing need be set that this process remembers anyway.
    fn is_shared(&self) -> bool {
        true
    }

    /// The value of `key`, if it has not ended.
    fn get<'a>(&'a self, key: &'a str) -> Storing<'a, Option<Bytes>>;

    /// Sets `key` for `ttl`, in place of what was there; a `ttl` of zero only forgets.
    fn set<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, ()>;

    /// Sets `key` for `ttl` if nothing is there; says whether it did. Of several that try at
    /// once, one does.
    fn set_if_absent<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, bool>;

    /// Sets `key` for `ttl` if its value is `expected`; says whether it did. Of several that
    /// expect the same at once, one does.
    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Bytes,
        ttl: Duration,
    ) -> Storing<'a, bool>;

    /// Forgets `key`; nothing there is no error.
    fn delete<'a>(&'a self, key: &'a str) -> Storing<'a, ()>;

    /// Tells `message` to whoever subscribes to `channel` now; nobody is no error.
    fn publish<'a>(&'a self, channel: &'a str, message: Bytes) -> Storing<'a, ()>;

    /// Hands the messages of `channel` to `subscriber` until it is dropped. What was lost is
    /// subscribed to again by itself, after a pause that grows.
    fn subscribe<'a>(
        &'a self,
        channel: &'a str,
        subscriber: Arc<dyn Subscriber>,
    ) -> BoxFuture<'a, ()>;
}

/// Whoever listens. Messages may be lost between two subscriptions.
pub trait Subscriber: Send + Sync {
    /// From now on messages come; what was said before may have been missed. Each subscription,
    /// the first too, begins with it; where it fails, the subscription counts as failed.
    fn subscribed(&self) -> Storing<'_, ()>;

    /// A message came, as it was published.
    fn message(&self, message: Bytes) -> BoxFuture<'_, ()>;

    /// Messages may be missed from now on.
    fn lost(&self);
}
