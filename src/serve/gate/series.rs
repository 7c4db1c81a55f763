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
    known: HashSet<Arc<str>>,
    other: Reason,
    resolved: ArcSwap<HashMap<Key, CheckSeries>>,
}

impl SeriesCache {
    pub(super) fn new(metrics: Arc<Metrics>, known: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self {
            metrics,
            known: known.into_iter().collect(),
            other: Reason::Policy("other".into()),
            resolved: ArcSwap::default(),
        }
    }

    /// One Check ended.
    pub(super) fn observe(
        &self,
        kind: Kind,
        reason: &Reason,
        route: Option<&Arc<str>>,
        took: Duration,
    ) {
        let reason = match reason {
            Reason::Policy(text) if !self.known.contains(text) => &self.other,
            reason => reason,
        };
        let key = (kind, reason.clone(), route.cloned());
        if let Some(series) = self.resolved.load().get(&key) {
            return series.observe(took);
        }
        let route = route.map_or("none", |route| &**route);
        let series = self.metrics.check_series(kind.as_str(), reason.as_str(), route);
        series.observe(took);
        self.resolved.rcu(|map| {
            let mut map = HashMap::clone(map);
            map.insert(key.clone(), series.clone());
            map
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
