//! Calls to the outside: how they ended, how long they took, and how each dependency fares.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::dependency::{DependencyHealth, DependencyState};
use super::labels::{CallLabels, CallOutcome, DependencyLabels};
use super::metrics::{Histograms, histogram};

/// Metrics of dependencies.
pub struct Calls {
    count: Family<CallLabels, Counter>,
    seconds: Histograms<DependencyLabels>,
    retries: Family<DependencyLabels, Counter>,
    breakers: Family<DependencyLabels, Gauge>,
    watched: Mutex<Vec<Weak<dyn DependencyHealth>>>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            count: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            retries: Family::default(),
            breakers: Family::default(),
            watched: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

fn of(dependency: &str) -> DependencyLabels {
    DependencyLabels { dependency: dependency.to_owned() }
}

impl Calls {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("dependency_calls", "Calls to a dependency by outcome", self.count.clone());
        let (name, about) = ("dependency_call_duration", "Time of a call to a dependency");
        r.register_with_unit(name, about, Unit::Seconds, self.seconds.clone());
        let about = "Calls to a dependency made a second time";
        r.register("dependency_retries", about, self.retries.clone());
        let about =
            "Whether a dependency is called: 0 closed (it is), 1 half-open (one probe is), 2 open";
        r.register("dependency_breaker_state", about, self.breakers.clone());
    }

    /// One call to a dependency ended.
    pub fn ended(&self, dependency: &str, outcome: CallOutcome, took: Duration) {
        let labels = CallLabels { dependency: dependency.to_owned(), outcome: outcome.as_str() };
        self.count.get_or_create(&labels).inc();
        self.seconds.get_or_create(&of(dependency)).observe(took.as_secs_f64());
    }

    /// A call to a dependency is made a second time.
    pub fn retry(&self, dependency: &str) {
        self.retries.get_or_create(&of(dependency)).inc();
    }

    /// Shows how a dependency fares for as long as `health` lives.
    pub fn watch(&self, health: &Arc<dyn DependencyHealth>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push(Arc::downgrade(health));
    }

    /// How each dependency fares, by name; of two clients of one name (around a reload), the
    /// newer.
    #[must_use]
    pub fn states(&self) -> Vec<DependencyState> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|health| health.strong_count() > 0);
        let states = watched.iter().filter_map(Weak::upgrade).map(|health| health.state());
        let by_name: BTreeMap<_, _> =
            states.map(|state| (Arc::clone(&state.name), state)).collect();
        by_name.into_values().collect()
    }

    /// Reads the breakers, for a scrape.
    pub(super) fn read(&self) {
        // One that is no longer configured has no state.
        self.breakers.clear();
        for state in self.states() {
            let labels = of(&state.name);
            self.breakers.get_or_create(&labels).set(state.breaker.gauge());
            // There from the start, so that the first retry shows as a rise.
            drop(self.retries.get_or_create(&labels));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{BreakerState, Metrics};

    struct Open;

    impl DependencyHealth for Open {
        fn state(&self) -> DependencyState {
            let (breaker, since) = (BreakerState::Open, Duration::ZERO);
            DependencyState { name: "gone".into(), breaker, since, last_error: None }
        }
    }

    #[test]
    fn a_dependency_that_is_no_more_shows_no_open_breaker() {
        let metrics = Metrics::new();
        let health: Arc<dyn DependencyHealth> = Arc::new(Open);
        metrics.calls.watch(&health);
        let line = "breaker_state{dependency=\"gone\"} 2";
        assert!(metrics.render().unwrap().contains(line));
        drop(health);
        assert!(!metrics.render().unwrap().contains("breaker_state{"));
    }
}
