//! The issuers' keys: how many there are, and how long they serve.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::IssuerLabels;

/// An issuer's keys as they are held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldKeys {
    /// Usable keys.
    pub usable: usize,
    /// When they were last fetched or read well, seconds since the Unix epoch.
    pub loaded: Option<i64>,
    /// When the next fetch should have brought them again; none for keys of a file.
    pub fresh_until: Option<i64>,
    /// When they stop to serve; none for keys of a file.
    pub serve_until: Option<i64>,
}

/// Metrics of issuers' keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Issuers {
    keys: Family<IssuerLabels, Gauge>,
    skipped: Family<IssuerLabels, Counter>,
    loaded: Family<IssuerLabels, Gauge>,
    fresh_until: Family<IssuerLabels, Gauge>,
    serve_until: Family<IssuerLabels, Gauge>,
}

impl Issuers {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("issuer_keys", "Usable keys of an issuer", self.keys.clone());
        let about = "Keys of an issuer that could not be used";
        r.register("issuer_keys_skipped", about, self.skipped.clone());
        for (name, about, gauges) in [
            ("loaded", "When an issuer's keys were last fetched or read well", &self.loaded),
            ("fresh_until", "Until when an issuer's keys are fresh", &self.fresh_until),
            ("expiry", "When an issuer's keys stop to serve", &self.serve_until),
        ] {
            let name = format!("issuer_keys_{name}_timestamp");
            r.register_with_unit(name, about, Unit::Seconds, gauges.clone());
        }
    }

    /// No issuer is configured.
    pub(super) fn clear(&self) {
        self.keys.clear();
        self.loaded.clear();
        self.fresh_until.clear();
        self.serve_until.clear();
    }

    pub(super) fn hold(&self, issuer: &str, held: HeldKeys) {
        let labels = IssuerLabels { issuer: issuer.to_owned() };
        let usable = i64::try_from(held.usable).unwrap_or(i64::MAX);
        self.keys.get_or_create(&labels).set(usable);
        // There from the start, so that the first one shows as a rise.
        drop(self.skipped.get_or_create(&labels));
        for (gauges, value) in [
            (&self.loaded, held.loaded),
            (&self.fresh_until, held.fresh_until),
            (&self.serve_until, held.serve_until),
        ] {
            match value {
                Some(value) => drop(gauges.get_or_create(&labels).set(value)),
                None => drop(gauges.remove(&labels)),
            }
        }
    }

    pub(super) fn skipped(&self, issuer: &str, keys: usize) {
        let labels = IssuerLabels { issuer: issuer.to_owned() };
        self.skipped.get_or_create(&labels).inc_by(keys as u64);
    }
}
