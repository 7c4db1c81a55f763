//! Answers that rest on stale or open ground.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::DegradedLabels;

/// Every mark that there is, with the part of an answer that can have it.
const ALL: [(&str, &str); 4] =
    [("stale", "token"), ("stale", "context"), ("stale", "decision"), ("open", "decision")];

/// Counts marked answers.
#[derive(Debug, Clone, Default)]
pub struct Degraded(Family<DegradedLabels, Counter>);

impl Degraded {
    pub(super) fn register(&self, r: &mut Registry) {
        for (mark, part) in ALL {
            // There from the start, so that the first one shows as a rise.
            drop(self.0.get_or_create(&DegradedLabels { mark, part }));
        }
        let about = "Answers that rest on stale or open ground, by part";
        r.register("degraded_answers", about, self.0.clone());
    }

    /// An answer rests on a `part` (`token`, `context`, `decision`) that is `mark` (`stale`, `open`).
    pub fn count(&self, part: &'static str, mark: &'static str) {
        self.0.get_or_create(&DegradedLabels { mark, part }).inc();
    }
}
