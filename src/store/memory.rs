//! The store of a process that shares nothing: bounded memory.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;

use super::{Cache, Cached, Store, Storing, Subscriber, heap, invalidations};
use crate::clock::{Clock, Expiry, Now};
use crate::model::BoxFuture;
use crate::telemetry::Metrics;

/// A [`Store`] in memory; where it is full, what was used least goes.
#[derive(Debug)]
pub struct Memory {
    entries: Cache<Arc<str>, Entry>,
    /// Held where a value is written, so that what is looked at first stays meanwhile.
    writing: Mutex<()>,
    messages: broadcast::Sender<(Arc<str>, Bytes)>,
    clock: Clock,
    alone: bool,
}

/// Messages that may wait for a slow subscriber; it is told where it missed some.
const WAITING: usize = 256;
/// Before a subscription that was lost is made again.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone)]
struct Entry {
    value: Bytes,
    expires: Expiry,
    key_bytes: usize,
    /// The list of invalidations: without it, everything counts as invalidated.
    stays: bool,
}

impl Cached for Entry {
    fn is_past(&self, now: &Now) -> bool {
        self.expires.is_past(now)
    }

    fn bytes(&self) -> usize {
        heap::block(self.value.len()) + heap::shared(self.key_bytes)
    }

    fn stays(&self) -> bool {
        self.stays
    }
}

impl Memory {
    /// An empty store of at most `bytes`, shown in metrics as the cache `store`.
    #[must_use]
    pub fn new(bytes: u64, clock: Clock, metrics: &Metrics) -> Self {
        let entries = Cache::new("store", bytes, metrics);
        let messages = broadcast::channel(WAITING).0;
        Self { entries, writing: Mutex::new(()), messages, clock, alone: false }
    }

    /// As [`Memory::new`], for the one process that uses it.
    #[must_use]
    pub fn alone(bytes: u64, clock: Clock, metrics: &Metrics) -> Self {
        Self { alone: true, ..Self::new(bytes, clock, metrics) }
    }

    fn read(&self, key: &Arc<str>) -> Option<Bytes> {
        let now = self.clock.now();
        // The metric counts what Checks look for; generations are read beside.
        let beside = key.starts_with(invalidations::KEYS);
        let found = if beside { self.entries.peek(key, &now) } else { self.entries.get(key, &now) };
        found.map(|entry| entry.value)
    }

    /// Writes `value` where `may` says so of what is there; says whether it did.
    fn write(
        &self,
        key: &str,
        value: Bytes,
        ttl: Duration,
        may: impl FnOnce(Option<Bytes>) -> bool,
    ) -> bool {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, now) = (Arc::<str>::from(key), self.clock.now());
        if !may(self.entries.peek(&key, &now).map(|entry| entry.value)) {
            return false;
        }
        if ttl.is_zero() {
            self.entries.remove(&key);
        } else {
            let (expires, key_bytes) = (Expiry::after(&now, ttl), key.len());
            let stays = *key == *invalidations::HEAD;
            self.entries.insert(key, Entry { value, expires, key_bytes, stays });
        }
        true
    }
}

impl Store for Memory {
    fn is_shared(&self) -> bool {
        !self.alone
    }

    fn get<'a>(&'a self, key: &'a str) -> Storing<'a, Option<Bytes>> {
        Box::pin(async move { Ok(self.read(&Arc::from(key))) })
    }

    fn set<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, ()> {
        Box::pin(async move {
            self.write(key, value, ttl, |_| true);
            Ok(())
        })
    }

    fn set_if_absent<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, bool> {
        Box::pin(async move { Ok(self.write(key, value, ttl, |there| there.is_none())) })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Bytes,
        ttl: Duration,
    ) -> Storing<'a, bool> {
        let same = move |there: Option<Bytes>| there.is_some_and(|there| there == expected);
        Box::pin(async move { Ok(self.write(key, value, ttl, same)) })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Storing<'a, ()> {
        Box::pin(async move {
            self.write(key, Bytes::new(), Duration::ZERO, |_| true);
            Ok(())
        })
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Bytes) -> Storing<'a, ()> {
        // An error says that nobody listens.
        drop(self.messages.send((channel.into(), message)));
        Box::pin(async { Ok(()) })
    }

    fn subscribe<'a>(
        &'a self,
        channel: &'a str,
        subscriber: Arc<dyn Subscriber>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let mut messages = self.messages.subscribe();
                if subscriber.subscribed().await.is_ok() {
                    while let Ok((of, message)) = messages.recv().await {
                        if *of == *channel {
                            subscriber.message(message).await;
                        }
                    }
                }
                // It fell behind, or could not begin.
                subscriber.lost();
                tokio::time::sleep(PAUSE).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract;

    #[tokio::test]
    async fn memory_keeps_the_contract() {
        let clock = Clock::manual(1_000);
        let store = Memory::new(1 << 20, clock.clone(), &Metrics::new());
        contract::holds(&store, |by| {
            clock.advance(by);
            Box::pin(async {})
        })
        .await;
        let store = Arc::new(store);
        contract::tells(Arc::<Memory>::clone(&store), store).await;
    }

    #[tokio::test]
    async fn memory_is_bounded_in_bytes() {
        let metrics = Metrics::new();
        let store = Memory::new(64 * 1024, Clock::manual(0), &metrics);
        let value = Bytes::from(vec![b'x'; 1_000]);
        let head = invalidations::HEAD;
        store.set(head, Bytes::from_static(b"head"), Duration::from_mins(1)).await.unwrap();
        for n in 0..1_000 {
            store.set(&format!("k{n}"), value.clone(), Duration::from_mins(1)).await.unwrap();
        }
        let mut kept = 0;
        for n in 0..1_000 {
            kept += usize::from(store.get(&format!("k{n}")).await.unwrap().is_some());
        }
        assert!((10..=64).contains(&kept), "{kept}");
        assert!(store.get(head).await.unwrap().is_some(), "what was invalidated stays known");
    }
}
