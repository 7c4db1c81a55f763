//! What is in force: the program, the configuration, the policies and the doors' certificates.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DoorLabels, OutcomeLabels, RefusedLabels, RevisionLabels, VersionLabels};

/// Metrics of what is in force, of reloads and of TLS.
#[derive(Debug, Clone, Default)]
pub struct InForce {
    reloads: Family<OutcomeLabels, Counter>,
    revision: Family<RevisionLabels, Gauge>,
    since: Gauge,
    last_ok: Gauge,
    policies: Family<RevisionLabels, Gauge>,
    policies_since: Family<RevisionLabels, Gauge>,
    build: Family<VersionLabels, Gauge>,
    certificate_expiry: Family<DoorLabels, Gauge>,
    refused: Family<RefusedLabels, Counter>,
}

impl InForce {
    pub(super) fn register(&self, r: &mut Registry) {
        for outcome in ["ok", "failed"] {
            drop(self.reloads.get_or_create(&OutcomeLabels { outcome }));
        }
        r.register("config_reloads", "Reloads by outcome", self.reloads.clone());
        let about = "1 for the revision of the configuration in force";
        r.register("config_revision_info", about, self.revision.clone());
        let version = env!("CARGO_PKG_VERSION");
        self.build.get_or_create(&VersionLabels { version }).set(1);
        r.register("build_info", "1 for the version of the program", self.build.clone());
        let about = "1 for the revision of the policies in force";
        r.register("policy_revision_info", about, self.policies.clone());
        let about = "When the process took the revision of the policies in force";
        let name = "policy_loaded_timestamp";
        r.register_with_unit(name, about, Unit::Seconds, self.policies_since.clone());
        self.last_ok.set(1);
        let about = "1 if the last reload succeeded or none was tried, 0 if it failed";
        r.register("config_last_reload_successful", about, self.last_ok.clone());
        let about = "When the configuration in force was taken";
        let name = "config_last_reload_success_timestamp";
        r.register_with_unit(name, about, Unit::Seconds, self.since.clone());
        let about = "When the first certificate of a door ends";
        let name = "certificate_expiry_timestamp";
        r.register_with_unit(name, about, Unit::Seconds, self.certificate_expiry.clone());
        let about = "Connections closed before any request was served, by why";
        r.register("tls_refused", about, self.refused.clone());
    }

    /// The configuration's revision that is in force from `unix_secs` on.
    pub fn configuration(&self, revision: &str, unix_secs: i64) {
        self.revision.clear();
        let labels = RevisionLabels { revision: revision.to_owned() };
        self.revision.get_or_create(&labels).set(1);
        self.since.set(unix_secs);
    }

    /// A reload ended as `outcome`: `ok` or `failed`.
    pub fn reload(&self, outcome: &'static str) {
        self.reloads.get_or_create(&OutcomeLabels { outcome }).inc();
        self.last_ok.set(i64::from(outcome == "ok"));
    }

    /// The policies' revision that is in force, where there are policies, from `unix_secs` on if
    /// it is another one than before.
    pub fn policies(&self, revision: Option<&str>, unix_secs: i64) {
        let labels = revision.map(|revision| RevisionLabels { revision: revision.to_owned() });
        if labels.as_ref().is_some_and(|labels| self.policies.get(labels).is_some()) {
            return;
        }
        self.policies.clear();
        self.policies_since.clear();
        if let Some(labels) = labels {
            self.policies.get_or_create(&labels).set(1);
            self.policies_since.get_or_create(&labels).set(unix_secs);
        }
    }

    /// The first certificate of `door` to end does so at `unix_secs`.
    pub fn certificate(&self, door: &'static str, unix_secs: i64) {
        self.certificate_expiry.get_or_create(&DoorLabels { door }).set(unix_secs);
    }

    /// A connection to `door` got nothing: its `handshake` failed, it was a `timeout`, or its
    /// `peer` is not in the list.
    pub fn refused(&self, door: &'static str, why: &'static str) {
        self.refused.get_or_create(&RefusedLabels { door, why }).inc();
    }
}
