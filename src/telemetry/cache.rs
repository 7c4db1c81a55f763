//! What a cache counts and shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::metrics::counter::Counter;

/// A cache's counters, resolved once so that a look-up costs one atomic addition.
#[derive(Debug, Clone, Default)]
pub struct CacheStats {
    /// Found and still valid.
    pub hit: Counter,
    /// Not there, or no longer valid.
    pub miss: Counter,
    /// Put out to make room.
    pub evicted: Counter,
}

/// Size of a cache, read at scrape time.
pub trait CacheSize: Send + Sync {
    /// Number of entries.
    fn entries(&self) -> u64;
    /// Accounted bytes.
    fn bytes(&self) -> u64;
}

/// The caches whose sizes are shown while they live.
#[derive(Default)]
pub(super) struct Watched(Mutex<Vec<(&'static str, Weak<dyn CacheSize>)>>);

impl Watched {
    pub(super) fn add(&self, name: &'static str, cache: &Arc<dyn CacheSize>) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push((name, Arc::downgrade(cache)));
    }

    /// Name, entries and accounted bytes, of all of one name together.
    pub(super) fn sums(&self) -> Vec<(&'static str, u64, u64)> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|(_, cache)| cache.strong_count() > 0);
        let mut sums = BTreeMap::<&'static str, (u64, u64)>::new();
        for (name, cache) in watched.iter() {
            if let Some(cache) = cache.upgrade() {
                let sum = sums.entry(name).or_default();
                *sum = (sum.0 + cache.entries(), sum.1 + cache.bytes());
            }
        }
        sums.into_iter().map(|(name, (entries, bytes))| (name, entries, bytes)).collect()
    }
}
