//! The store of a process that shares nothing: bounded memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Cache, Cached, Store, StoreError};
use crate::clock::{Clock, Expiry, Now};
use crate::model::BoxFuture;
use crate::telemetry::Metrics;

/// A [`Store`] in memory; where it is full, what was used least goes.
#[derive(Debug)]
pub struct Memory {
    entries: Cache<Arc<str>, Entry>,
    clock: Clock,
}

#[derive(Clone)]
struct Entry {
    value: Bytes,
    expires: Expiry,
    key_bytes: usize,
}

impl Cached for Entry {
    fn is_past(&self, now: &Now) -> bool {
        self.expires.is_past(now)
    }

    fn bytes(&self) -> usize {
        self.value.len() + self.key_bytes
    }
}

impl Memory {
    /// An empty store of at most `bytes`, shown in metrics as the cache `store`.
    #[must_use]
    pub fn new(bytes: u64, clock: Clock, metrics: &Metrics) -> Self {
        Self { entries: Cache::new("store", bytes, metrics), clock }
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            let found = self.entries.get(&Arc::from(key), &self.clock.now());
            Ok(found.map(|entry| entry.value))
        })
    }

    fn set<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            if ttl.is_zero() {
                self.entries.remove(&Arc::from(key));
                return Ok(());
            }
            let expires = Expiry::after(&self.clock.now(), ttl);
            let key = Arc::<str>::from(key);
            let key_bytes = key.len();
            self.entries.insert(key, Entry { value, expires, key_bytes });
            Ok(())
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.entries.remove(&Arc::from(key));
            Ok(())
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
    }

    #[tokio::test]
    async fn memory_is_bounded_in_bytes() {
        let metrics = Metrics::new();
        let store = Memory::new(64 * 1024, Clock::manual(0), &metrics);
        let value = Bytes::from(vec![b'x'; 1_000]);
        for n in 0..1_000 {
            store.set(&format!("k{n}"), value.clone(), Duration::from_mins(1)).await.unwrap();
        }
        let mut kept = 0;
        for n in 0..1_000 {
            kept += usize::from(store.get(&format!("k{n}")).await.unwrap().is_some());
        }
        assert!((10..=64).contains(&kept), "{kept}");
    }
}
