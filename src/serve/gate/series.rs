//! The metric series of outcome, reason and route, each resolved once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::audit::Kind;
use crate::model::Reason;
use crate::telemetry::{CheckSeries, Metrics};

type Key = (Kind, Reason, Option<Arc<str>>);

/// Routes are configured and reasons are known at load, so the map is bounded.
pub(super) struct SeriesCache {
    metrics: Arc<Metrics>,
    other: Reason,
    resolved: ArcSwap<Resolved>,
}

/// The policies' own reasons that are labels, and the series met since they were told.
#[derive(Clone, Default)]
struct Resolved {
    known: Arc<HashSet<Arc<str>>>,
    series: HashMap<Key, CheckSeries>,
}

impl SeriesCache {
    pub(super) fn new(metrics: Arc<Metrics>, known: impl IntoIterator<Item = Arc<str>>) -> Self {
        let other = Reason::Policy("other".into());
        let cache = Self { metrics, other, resolved: ArcSwap::default() };
        cache.know(known);
        cache
    }

    /// From now on these reasons of policies are labels, and others are not.
    pub(super) fn know(&self, known: impl IntoIterator<Item = Arc<str>>) {
        let known = Arc::new(known.into_iter().collect());
        self.resolved.store(Arc::new(Resolved { known, series: HashMap::new() }));
    }

    /// One Check ended.
    pub(super) fn observe(
        &self,
        kind: Kind,
        reason: &Reason,
        route: Option<&Arc<str>>,
        took: Duration,
    ) {
        let resolved = self.resolved.load();
        let reason = match reason {
            Reason::Policy(text) if !resolved.known.contains(text) => &self.other,
            reason => reason,
        };
        let key = (kind, reason.clone(), route.cloned());
        if let Some(series) = resolved.series.get(&key) {
            return series.observe(took);
        }
        let route = route.map_or("none", |route| &**route);
        let series = self.metrics.check_series(kind.as_str(), reason.as_str(), route);
        series.observe(took);
        self.resolved.rcu(|resolved| {
            let mut resolved = Resolved::clone(resolved);
            resolved.series.insert(key.clone(), series.clone());
            resolved
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s9_1_reasons_of_new_policies_become_labels_and_old_ones_stop_to_be() {
        let metrics = Arc::new(Metrics::new());
        let series = SeriesCache::new(metrics.clone(), [Arc::from("old")]);
        let observe = |reason| {
            let reason = Reason::from_policy(reason).unwrap();
            series.observe(Kind::Deny, &reason, Some(&"r".into()), Duration::ZERO);
        };
        observe("old");
        observe("new");
        series.know([Arc::from("new")]);
        observe("old");
        observe("new");
        let text = metrics.render().unwrap();
        for (reason, count) in [("old", 1), ("new", 1), ("other", 2)] {
            let line = format!("reason=\"{reason}\",route=\"r\"}} {count}");
            assert!(text.contains(&line), "{line} not in {text}");
        }
    }

    #[test]
    fn s3_5_a_reason_that_was_not_found_at_load_counts_as_other() {
        let metrics = Arc::new(Metrics::new());
        let series = SeriesCache::new(metrics.clone(), [Arc::from("known")]);
        for reason in ["known", "made_up_1", "made_up_2"] {
            let reason = Reason::from_policy(reason).unwrap();
            series.observe(Kind::Deny, &reason, Some(&"r".into()), Duration::ZERO);
        }
        let text = metrics.render().unwrap();
        assert!(text.contains("reason=\"known\",route=\"r\"} 1"), "{text}");
        assert!(text.contains("reason=\"other\",route=\"r\"} 2"), "{text}");
        assert!(!text.contains("made_up"));
    }
}
