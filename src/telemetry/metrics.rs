//! The one registry of the process.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::cache::{CacheSize, CacheStats, Watched};
use super::dependency::{DependencyHealth, DependencyState};
use super::in_force::InForce;
use super::invalidations::InvalidationMetrics;
use super::labels::{
    CacheLabels, CacheResultLabels, CallLabels, CallOutcome, CheckLabels, DependencyLabels,
    DoorLabels, IssuerLabels, OutcomeLabels, RevisionLabels, StageLabels,
};

/// 25 µs to 5 s: a warm Check lies at the lower end, a dependency's time-out at the upper.
const SECONDS: [f64; 16] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 5.0,
];

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Every metric of the process. Handles that a warm Check needs are resolved once
/// ([`CheckSeries`], [`CacheStats`]); the rest looks its series up by label.
pub struct Metrics {
    registry: Registry,
    checks: Family<CheckLabels, Counter>,
    check_seconds: Histograms<OutcomeLabels>,
    stage_seconds: Histograms<StageLabels>,
    /// Checks that are being decided now.
    pub in_flight: Gauge,
    /// Checks answered *unavailable* because too many were in flight.
    pub shed: Counter,
    cache_requests: Family<CacheResultLabels, Counter>,
    cache_evictions: Family<CacheLabels, Counter>,
    cache_entries: Family<CacheLabels, Gauge>,
    cache_bytes: Family<CacheLabels, Gauge>,
    watched: Watched,
    calls: Family<CallLabels, Counter>,
    call_seconds: Histograms<DependencyLabels>,
    retries: Family<DependencyLabels, Counter>,
    breakers: Family<DependencyLabels, Gauge>,
    dependencies: Mutex<Vec<Weak<dyn DependencyHealth>>>,
    /// Values of the store that did not verify; each was a miss.
    pub store_rejected: Counter,
    policy_revision: Family<RevisionLabels, Gauge>,
    /// What is in force, and the doors' certificates.
    pub in_force: InForce,
    /// Invalidations.
    pub invalidations: InvalidationMetrics,
    issuer_keys: Family<IssuerLabels, Gauge>,
    issuer_keys_skipped: Family<IssuerLabels, Counter>,
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
        let mut registry = Registry::with_prefix("portcullis");
        let metrics = Self {
            checks: Family::default(),
            check_seconds: Family::new_with_constructor(histogram),
            stage_seconds: Family::new_with_constructor(histogram),
            in_flight: Gauge::default(),
            shed: Counter::default(),
            cache_requests: Family::default(),
            cache_evictions: Family::default(),
            cache_entries: Family::default(),
            cache_bytes: Family::default(),
            watched: Watched::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(histogram),
            retries: Family::default(),
            breakers: Family::default(),
            dependencies: Mutex::default(),
            store_rejected: Counter::default(),
            policy_revision: Family::default(),
            in_force: InForce::default(),
            invalidations: InvalidationMetrics::default(),
            issuer_keys: Family::default(),
            issuer_keys_skipped: Family::default(),
            connections: Family::default(),
            accept_errors: Family::default(),
            audit_written: Counter::default(),
            audit_dropped: Counter::default(),
            audit_failed: Counter::default(),
            panics: Counter::default(),
            registry: Registry::default(),
        };
        let r = &mut registry;
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
        metrics.register_dependencies(r);
        r.register(
            "policy_revision_info",
            "1 for the revision of the policies in force",
            metrics.policy_revision.clone(),
        );
        metrics.in_force.register(r);
        metrics.invalidations.register(r);
        r.register("issuer_keys", "Usable keys of an issuer", metrics.issuer_keys.clone());
        r.register(
            "issuer_keys_skipped",
            "Keys of an issuer that could not be used",
            metrics.issuer_keys_skipped.clone(),
        );
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
        Self { registry, ..metrics }
    }

    fn register_dependencies(&self, r: &mut Registry) {
        r.register("dependency_calls", "Calls to a dependency by outcome", self.calls.clone());
        r.register_with_unit(
            "dependency_call_duration",
            "Time of a call to a dependency",
            Unit::Seconds,
            self.call_seconds.clone(),
        );
        r.register(
            "dependency_retries",
            "Calls to a dependency made a second time",
            self.retries.clone(),
        );
        r.register(
            "dependency_breaker_state",
            "Whether a dependency is called: 0 closed (it is), 1 half-open (one probe is), 2 open",
            self.breakers.clone(),
        );
        r.register(
            "store_values_rejected",
            "Values of the shared store that did not verify",
            self.store_rejected.clone(),
        );
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

    /// One call to a dependency ended.
    pub fn call(&self, dependency: &str, outcome: CallOutcome, took: Duration) {
        let labels = CallLabels { dependency: dependency.to_owned(), outcome: outcome.as_str() };
        self.calls.get_or_create(&labels).inc();
        let labels = DependencyLabels { dependency: dependency.to_owned() };
        self.call_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A call to a dependency is made a second time.
    pub fn retry(&self, dependency: &str) {
        let labels = DependencyLabels { dependency: dependency.to_owned() };
        self.retries.get_or_create(&labels).inc();
    }

    /// Shows how a dependency fares for as long as `health` lives.
    pub fn watch_dependency(&self, health: &Arc<dyn DependencyHealth>) {
        let mut watched = self.dependencies.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push(Arc::downgrade(health));
    }

    /// How each dependency fares, by name; of two clients of one name (around a reload), the
    /// newer.
    #[must_use]
    pub fn dependencies(&self) -> Vec<DependencyState> {
        let mut watched = self.dependencies.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|health| health.strong_count() > 0);
        let states = watched.iter().filter_map(Weak::upgrade).map(|health| health.state());
        let by_name: std::collections::BTreeMap<_, _> =
            states.map(|state| (Arc::clone(&state.name), state)).collect();
        by_name.into_values().collect()
    }

    /// The policies' revision that is in force now.
    pub fn policy_revision(&self, revision: &str) {
        self.policy_revision.clear();
        let labels = RevisionLabels { revision: revision.to_owned() };
        self.policy_revision.get_or_create(&labels).set(1);
    }

    /// There are no policies in force.
    pub fn no_policies(&self) {
        self.policy_revision.clear();
    }

    /// These issuers are configured, with so many usable keys; others are no more.
    pub fn issuers_are(&self, issuers: impl Iterator<Item = (Arc<str>, usize)>) {
        self.issuer_keys.clear();
        for (issuer, keys) in issuers {
            let labels = IssuerLabels { issuer: issuer.as_ref().to_owned() };
            self.issuer_keys.get_or_create(&labels).set(i64::try_from(keys).unwrap_or(i64::MAX));
        }
    }

    /// An issuer's key set was loaded.
    pub fn issuer_keys(&self, issuer: &str, usable: usize, skipped: usize) {
        let labels = IssuerLabels { issuer: issuer.to_owned() };
        self.issuer_keys.get_or_create(&labels).set(i64::try_from(usable).unwrap_or(i64::MAX));
        self.issuer_keys_skipped.get_or_create(&labels).inc_by(skipped as u64);
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
        self.read_caches();
        for state in self.dependencies() {
            let labels = DependencyLabels { dependency: state.name.to_string() };
            self.breakers.get_or_create(&labels).set(state.breaker.gauge());
            // There from the start, so that the first retry shows as a rise.
            drop(self.retries.get_or_create(&labels));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
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
mod tests {
    use super::*;

    #[test]
    fn every_series_appears_with_its_labels() {
        let metrics = Metrics::new();
        metrics.check_series("allow", "allowed", "r").observe(Duration::from_micros(30));
        metrics.cache("token").hit.inc();
        metrics.call("user_api", CallOutcome::Timeout, Duration::from_secs(1));
        metrics.policy_revision("a");
        metrics.policy_revision("b");
        let text = metrics.render().unwrap();
        for line in [
            "portcullis_checks_total{outcome=\"allow\",reason=\"allowed\",route=\"r\"} 1",
            "portcullis_check_duration_seconds_count{outcome=\"allow\"} 1",
            "portcullis_cache_requests_total{cache=\"token\",result=\"hit\"} 1",
            "portcullis_dependency_calls_total{dependency=\"user_api\",outcome=\"timeout\"} 1",
            "portcullis_policy_revision_info{revision=\"b\"} 1",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        assert!(!text.contains("revision=\"a\""));
    }
}
