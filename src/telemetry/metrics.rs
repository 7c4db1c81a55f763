//! The one registry of the process.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::cache::{CacheSize, CacheStats, Watched};
use super::calls::Calls;
use super::degraded::Degraded;
use super::exemplars::{Exemplars, SpanCounts};
use super::in_force::InForce;
use super::invalidations::InvalidationMetrics;
use super::issuers::{HeldKeys, Issuers};
use super::labels::{
    CacheLabels, CacheResultLabels, CheckLabels, DoorLabels, OutcomeLabels, StageLabels,
};
use super::process::Process;

/// 25 µs to 5 s: a warm Check lies at the lower end, a dependency's time-out at the upper.
pub(super) const SECONDS: [f64; 16] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 5.0,
];

pub(super) fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

pub(super) type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Every metric of the process. Handles that a warm Check needs are resolved once
/// ([`CheckSeries`], [`CacheStats`]); the rest looks its series up by label.
pub struct Metrics {
    registry: Registry,
    checks: Family<CheckLabels, Counter>,
    check_seconds: Histograms<OutcomeLabels>,
    stage_seconds: Histograms<StageLabels>,
    pub(super) traced: Exemplars,
    /// Checks that are being decided now.
    pub in_flight: Gauge,
    /// Checks answered *unavailable* because too many were in flight.
    pub shed: Counter,
    /// Answers on stale or open ground.
    pub degraded: Degraded,
    cache_requests: Family<CacheResultLabels, Counter>,
    cache_evictions: Family<CacheLabels, Counter>,
    cache_entries: Family<CacheLabels, Gauge>,
    cache_bytes: Family<CacheLabels, Gauge>,
    watched: Watched,
    /// Calls to the outside.
    pub calls: Calls,
    /// Held while what is read at a scrape is read and written out.
    rendering: Mutex<()>,
    /// Values of the store that did not verify; each was a miss.
    pub store_rejected: Counter,
    /// What is in force, and the doors' certificates.
    pub in_force: InForce,
    /// Invalidations.
    pub invalidations: InvalidationMetrics,
    issuers: Issuers,
    connections: Family<DoorLabels, Gauge>,
    accept_errors: Family<DoorLabels, Counter>,
    /// Audit events that were written.
    pub audit_written: Counter,
    /// Audit events lost because the queue was full.
    pub audit_dropped: Counter,
    /// Audit events lost because the sink failed.
    pub audit_failed: Counter,
    /// Panics caught inside a Check; each is a fault of ours.
    pub panics: Counter,
    /// What became of spans.
    pub spans: SpanCounts,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// The series of one route and reason, resolved.
#[derive(Debug, Clone)]
pub struct CheckSeries {
    count: Counter,
    seconds: Histogram,
}

impl CheckSeries {
    /// One Check ended this way after `took`.
    pub fn observe(&self, took: Duration) {
        self.count.inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            checks: Family::default(),
            check_seconds: Family::new_with_constructor(histogram),
            stage_seconds: Family::new_with_constructor(histogram),
            traced: Exemplars::default(),
            in_flight: Gauge::default(),
            shed: Counter::default(),
            degraded: Degraded::default(),
            cache_requests: Family::default(),
            cache_evictions: Family::default(),
            cache_entries: Family::default(),
            cache_bytes: Family::default(),
            watched: Watched::default(),
            calls: Calls::default(),
            rendering: Mutex::default(),
            store_rejected: Counter::default(),
            in_force: InForce::default(),
            invalidations: InvalidationMetrics::default(),
            issuers: Issuers::default(),
            connections: Family::default(),
            accept_errors: Family::default(),
            audit_written: Counter::default(),
            audit_dropped: Counter::default(),
            audit_failed: Counter::default(),
            panics: Counter::default(),
            spans: SpanCounts::default(),
            registry: Registry::default(),
        };
        registry.register_collector(Box::new(Process));
        let r = registry.sub_registry_with_prefix("portcullis");
        r.register("checks", "Checks by outcome, reason and route", metrics.checks.clone());
        r.register_with_unit(
            "check_duration",
            "Time from a Check's arrival to its answer",
            Unit::Seconds,
            metrics.check_seconds.clone(),
        );
        r.register_with_unit(
            "stage_duration",
            "Time that a stage took where it had to load or compute",
            Unit::Seconds,
            metrics.stage_seconds.clone(),
        );
        r.register("checks_in_flight", "Checks being decided now", metrics.in_flight.clone());
        r.register(
            "checks_shed",
            "Checks shed because too many were in flight",
            metrics.shed.clone(),
        );
        metrics.degraded.register(r);
        r.register("cache_requests", "Cache look-ups by result", metrics.cache_requests.clone());
        r.register(
            "cache_evictions",
            "Entries put out to make room",
            metrics.cache_evictions.clone(),
        );
        r.register("cache_entries", "Entries in a cache", metrics.cache_entries.clone());
        r.register_with_unit(
            "cache_size",
            "Accounted size of a cache",
            Unit::Bytes,
            metrics.cache_bytes.clone(),
        );
        metrics.calls.register(r);
        let about = "Values of the shared store that did not verify";
        r.register("store_values_rejected", about, metrics.store_rejected.clone());
        metrics.in_force.register(r);
        metrics.invalidations.register(r);
        metrics.issuers.register(r);
        r.register("connections", "Open connections of a door", metrics.connections.clone());
        r.register(
            "accept_errors",
            "Connections that could not be accepted",
            metrics.accept_errors.clone(),
        );
        r.register("audit_events_written", "Audit events written", metrics.audit_written.clone());
        r.register(
            "audit_events_dropped",
            "Audit events lost because the queue was full",
            metrics.audit_dropped.clone(),
        );
        r.register(
            "audit_events_failed",
            "Audit events lost because the sink failed",
            metrics.audit_failed.clone(),
        );
        r.register("panics", "Panics caught inside a Check", metrics.panics.clone());
        metrics.spans.register(r);
        Self { registry, ..metrics }
    }

    /// The series of Checks that end with this outcome, reason label and route.
    #[must_use]
    pub fn check_series(&self, outcome: &'static str, reason: &str, route: &str) -> CheckSeries {
        let labels = CheckLabels { outcome, reason: reason.to_owned(), route: route.to_owned() };
        CheckSeries {
            count: self.checks.get_or_create(&labels).clone(),
            seconds: self.check_seconds.get_or_create(&OutcomeLabels { outcome }).clone(),
        }
    }

    /// A stage had to load or compute and took this long.
    pub fn stage(&self, stage: &'static str, took: Duration) {
        self.stage_seconds.get_or_create(&StageLabels { stage }).observe(took.as_secs_f64());
    }

    /// The counters of the cache `cache`.
    #[must_use]
    pub fn cache(&self, cache: &'static str) -> CacheStats {
        let by = |result| {
            self.cache_requests.get_or_create(&CacheResultLabels { cache, result }).clone()
        };
        CacheStats {
            hit: by("hit"),
            miss: by("miss"),
            evicted: self.cache_evictions.get_or_create(&CacheLabels { cache }).clone(),
        }
    }

    /// Shows the size of `cache` for as long as it lives.
    pub fn watch_cache(&self, name: &'static str, cache: &Arc<dyn CacheSize>) {
        self.watched.add(name, cache);
    }

    /// These issuers are configured, with these keys; others are no more.
    pub fn issuers_are(&self, issuers: impl Iterator<Item = (Arc<str>, HeldKeys)>) {
        self.issuers.clear();
        issuers.for_each(|(issuer, held)| self.issuers.hold(&issuer, held));
    }

    /// An issuer's key set was loaded; `skipped` keys of it cannot be used.
    pub fn issuer_keys(&self, issuer: &str, held: HeldKeys, skipped: usize) {
        self.issuers.hold(issuer, held);
        self.issuers.skipped(issuer, skipped);
    }

    /// The gauge of a door's open connections. The door's count of accept errors starts with it,
    /// so that the first error shows as an increase.
    #[must_use]
    pub fn connections(&self, door: &'static str) -> Gauge {
        drop(self.accept_errors.get_or_create(&DoorLabels { door }));
        self.connections.get_or_create(&DoorLabels { door }).clone()
    }

    /// A connection could not be accepted.
    pub fn accept_error(&self, door: &'static str) {
        self.accept_errors.get_or_create(&DoorLabels { door }).inc();
    }

    /// The metrics as `OpenMetrics` text.
    ///
    /// # Errors
    /// Only if formatting fails.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let _one = self.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_caches();
        self.calls.read();
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(self.traced.put_into(text))
    }

    /// Name, entries and accounted bytes of each cache.
    #[must_use]
    pub fn caches(&self) -> Vec<(&'static str, u64, u64)> {
        self.watched.sums()
    }

    fn read_caches(&self) {
        let clamp = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        for (cache, entries, bytes) in self.caches() {
            let labels = CacheLabels { cache };
            self.cache_entries.get_or_create(&labels).set(clamp(entries));
            self.cache_bytes.get_or_create(&labels).set(clamp(bytes));
        }
    }
}

#[cfg(test)]
mod tests;
