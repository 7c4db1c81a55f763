//! A cache bounded by bytes whose entries know when they end.

use std::hash::Hash;
use std::sync::Arc;

use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, sync};

use crate::clock::Now;
use crate::telemetry::{CacheSize, CacheStats, Metrics};

/// The parts of a cache are bounded each for itself, so none may be smaller than this: it must
/// hold the largest value, whatever the number of cores.
const PART_BYTES: u64 = 1 << 20;
const MAX_PARTS: u64 = 64;

/// What a cache needs to know of its values. Values are cheap to clone (an `Arc`).
pub trait Cached: Clone + Send + Sync + 'static {
    /// Whether the value may no longer serve at `now`.
    fn is_past(&self, now: &Now) -> bool;
    /// Bytes on the heap that the value and its key hold on to ([`super::heap`]); key and value
    /// themselves and what the cache adds are counted by the cache.
    fn bytes(&self) -> usize;
    /// The cache let go of the value, by replacing it or to make room; what was made of it and
    /// is kept elsewhere can be told here.
    fn gone(&self) {}
    /// Whether it stays where room is needed; few may.
    fn stays(&self) -> bool {
        false
    }
}

/// A bounded map from keys to values that end. Where it is full, what was used least goes.
pub struct Cache<K, V>(Arc<Inner<K, V>>);

struct Inner<K, V> {
    map: sync::Cache<K, V, Weigh, DefaultHashBuilder, Count>,
    stats: CacheStats,
}

#[derive(Clone)]
struct Weigh;

impl<K, V: Cached> Weighter<K, V> for Weigh {
    fn weight(&self, _: &K, value: &V) -> u64 {
        // A slot has links and a mark beside the two. Slots grow by doubling, so that on average a
        // third is empty and what they grew out of is still about; so does the index, which has
        // five bytes for each.
        let slot = size_of::<K>() + size_of::<V>() + 16;
        (value.bytes() + 2 * slot + 16) as u64
    }
}

#[derive(Clone)]
struct Count(CacheStats);

impl<K, V: Cached> Lifecycle<K, V> for Count {
    type RequestState = ();

    fn is_pinned(&self, _: &K, value: &V) -> bool {
        value.stays()
    }

    fn on_evict(&self, (): &mut Self::RequestState, _: K, value: V) {
        self.0.evicted.inc();
        value.gone();
    }
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cache")
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Cached,
{
    /// An empty cache of at most `bytes`, shown in metrics as `name`.
    #[must_use]
    pub fn new(name: &'static str, bytes: u64, metrics: &Metrics) -> Self {
        let stats = metrics.cache(name);
        // An average entry of these caches is about a kilobyte.
        let items = usize::try_from(bytes / 1024).unwrap_or(usize::MAX).clamp(16, 1 << 20);
        // A power of two, rounded down.
        let parts = 1_usize << (bytes / PART_BYTES).clamp(1, MAX_PARTS).ilog2();
        let (hash, count) = (DefaultHashBuilder::default(), Count(stats.clone()));
        let options = OptionsBuilder::new()
            .shards(parts)
            .estimated_items_capacity(items)
            .weight_capacity(bytes)
            .build();
        let map = match options {
            Ok(options) => sync::Cache::with_options(options, Weigh, hash, count),
            Err(_) => sync::Cache::with(items, bytes, Weigh, hash, count),
        };
        let inner = Arc::new(Inner { map, stats });
        let size: Arc<dyn CacheSize> = inner.clone();
        metrics.watch_cache(name, &size);
        Self(inner)
    }

    /// The value of `key` if it may still serve at `now`; counted as hit or miss.
    #[must_use]
    pub fn get(&self, key: &K, now: &Now) -> Option<V> {
        self.get_if(key, now, |_| true)
    }

    /// As [`Cache::get`]; a value that `serves` refuses is none.
    #[must_use]
    pub fn get_if(&self, key: &K, now: &Now, serves: impl FnOnce(&V) -> bool) -> Option<V> {
        let found = self.peek(key, now).filter(serves);
        let stats = &self.0.stats;
        if found.is_some() {
            stats.hit.inc()
        } else {
            stats.miss.inc()
        };
        found
    }

    /// As [`Cache::get`], without counting.
    #[must_use]
    pub fn peek(&self, key: &K, now: &Now) -> Option<V> {
        self.0.map.get(key).filter(|value| !value.is_past(now))
    }

    /// The value of `key` even if it is past its end: for stale answers.
    #[must_use]
    pub fn peek_stale(&self, key: &K) -> Option<V> {
        self.0.map.get(key)
    }

    /// Keeps `value`; a value larger than the whole cache is not kept.
    pub fn insert(&self, key: K, value: V) {
        self.0.map.insert(key, value);
    }

    /// Forgets `key`.
    pub fn remove(&self, key: &K) {
        self.0.map.remove(key);
    }

    /// Forgets every entry that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        self.0.map.retain(keep);
    }

    /// How many entries it holds, and their accounted bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.0.entries(), self.0.bytes())
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.map.clear();
    }
}

impl<K, V> CacheSize for Inner<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Cached,
{
    fn entries(&self) -> u64 {
        self.map.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.map.weight()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, Expiry};

    #[derive(Clone)]
    struct Value(Arc<str>, Expiry);

    impl Cached for Value {
        fn is_past(&self, now: &Now) -> bool {
            self.1.is_past(now)
        }

        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    #[test]
    fn a_large_value_is_kept_whatever_the_number_of_cores() {
        let (metrics, clock) = (Metrics::new(), Clock::manual(0));
        let expiry = Expiry::after(&clock.now(), Duration::from_secs(5));
        for mebibytes in [1, 3, 32, 1024] {
            let cache = Cache::<u32, Value>::new("test", mebibytes << 20, &metrics);
            cache.insert(1, Value("x".repeat(900 << 10).into(), expiry));
            assert!(cache.peek(&1, &clock.now()).is_some(), "{mebibytes} MiB");
        }
    }

    #[test]
    fn an_entry_ends_and_is_bounded_in_bytes() {
        let metrics = Metrics::new();
        let clock = Clock::manual(0);
        let cache = Cache::<u32, Value>::new("test", 64 * 1024, &metrics);
        let text: Arc<str> = "x".repeat(1000).into();
        let expiry = Expiry::after(&clock.now(), Duration::from_secs(5));
        for key in 0..1_000 {
            cache.insert(key, Value(Arc::clone(&text), expiry));
        }
        assert!(cache.0.bytes() <= 64 * 1024);
        assert!(cache.0.entries() > 10);
        let kept = (0..1_000).find(|key| cache.peek(key, &clock.now()).is_some()).unwrap();
        clock.advance(Duration::from_secs(5));
        assert!(cache.get(&kept, &clock.now()).is_none());
        assert!(cache.peek_stale(&kept).is_some());
        let shown = metrics.render().unwrap();
        assert!(
            shown.contains("portcullis_cache_requests_total{cache=\"test\",result=\"miss\"} 1")
        );
        assert!(!shown.contains("portcullis_cache_evictions_total{cache=\"test\"} 0"));
    }
}
