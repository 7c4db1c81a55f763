//! What invalidations count and show.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::InvalidationLabels;

/// 1 ms to 60 s: a message takes little more than the network's time.
const SECONDS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 60.0];

/// Metrics of invalidations and of the subscription to those of other replicas.
#[derive(Debug, Clone)]
pub struct InvalidationMetrics {
    invalidations: Family<InvalidationLabels, Counter>,
    /// Invalidations of which the store could not be told all.
    pub failed: Counter,
    /// 1 while other replicas' invalidations are heard.
    pub subscribed: Gauge,
    /// Subscriptions that began.
    pub subscriptions: Counter,
    /// Time from an invalidation to its arrival, by the two machines' clocks.
    pub lag: Histogram,
}

impl Default for InvalidationMetrics {
    fn default() -> Self {
        Self {
            invalidations: Family::default(),
            failed: Counter::default(),
            subscribed: Gauge::default(),
            subscriptions: Counter::default(),
            lag: Histogram::new(SECONDS),
        }
    }
}

impl InvalidationMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        for kind in ["user", "token", "issuer", "route", "everything"] {
            for how in ["asked", "received", "missed"] {
                drop(self.invalidations.get_or_create(&InvalidationLabels { how, kind }));
            }
        }
        let about = "Invalidations asked for here, received from others, or found to be missed";
        r.register("invalidations", about, self.invalidations.clone());
        let about = "Invalidations of which the store could not be told all";
        r.register("invalidations_failed", about, self.failed.clone());
        let about = "1 while other replicas' invalidations are heard";
        r.register("subscription_up", about, self.subscribed.clone());
        r.register("subscriptions", "Subscriptions that began", self.subscriptions.clone());
        let about = "Time from an invalidation to its arrival";
        r.register_with_unit("invalidation_lag", about, Unit::Seconds, self.lag.clone());
    }

    /// One invalidation of `kind` came into force here: `asked`, `received` or `missed`.
    pub fn counted(&self, how: &'static str, kind: &'static str) {
        self.invalidations.get_or_create(&InvalidationLabels { how, kind }).inc();
    }
}
