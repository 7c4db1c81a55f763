//! What a cache counts and shows.

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
