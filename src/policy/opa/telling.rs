//! Which revision OPA's bundles have, as its answers tell it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Now;

/// What is known of one OPA server; it outlives a reload.
#[derive(Debug)]
pub(super) struct Telling {
    /// Counts calls that begin and revisions that are taken, so that they have an order.
    turn: AtomicU64,
    /// When OPA last told its revision, nanoseconds since the Unix epoch.
    told: AtomicI64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    revision: Option<Arc<str>>,
    /// The turn in which it was taken.
    since: u64,
}

impl Default for Telling {
    fn default() -> Self {
        let told = AtomicI64::new(i64::MIN);
        Self { turn: AtomicU64::new(0), told, known: Mutex::default() }
    }
}

impl Telling {
    /// A call begins; what it is told counts from this turn.
    pub(super) fn begin(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::AcqRel).saturating_add(1)
    }

    /// The revision that is known now.
    pub(super) fn revision(&self) -> Option<Arc<str>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).revision.clone()
    }

    /// A call that began in turn `began` was told `revision`. Returns the revision that is known
    /// from now on. Another revision than the known one is taken from a call only that began
    /// after the known one was taken: an answer that was long under way may be of policies that
    /// OPA has replaced since, and must not bring them back.
    pub(super) fn tell(
        &self,
        revision: Option<&Arc<str>>,
        began: u64,
        now: &Now,
    ) -> Option<Arc<str>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.revision.as_ref() != revision {
            if began <= known.since {
                return known.revision.clone();
            }
            known.revision = revision.cloned();
            known.since = self.begin();
        }
        self.told.store(now.unix_nanos, Ordering::Relaxed);
        known.revision.clone()
    }

    /// Whether the revision was told too long ago; true once per `patience` at most.
    pub(super) fn is_due(&self, now: &Now, patience: Duration) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        let patience = i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX);
        let due = now.unix_nanos.saturating_sub(told) > patience;
        let swap = |to| self.told.compare_exchange(told, to, Ordering::Relaxed, Ordering::Relaxed);
        due && swap(now.unix_nanos).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn s6_7_a_late_answer_of_old_policies_does_not_bring_them_back() {
        let (telling, now) = (Telling::default(), Clock::manual(1_000).now());
        let [one, two] = ["one", "two"].map(|text| Some(Arc::from(text)));
        let tell =
            |revision: &Option<Arc<str>>, began| telling.tell(revision.as_ref(), began, &now);
        let (late, first) = (telling.begin(), telling.begin());
        assert_eq!(tell(&one, first), one);
        // Both began while `one` was known; which of them OPA answered last is not known.
        let [left, right] = [telling.begin(), telling.begin()];
        assert_eq!(tell(&two, left), two);
        assert_eq!(tell(&one, right), two, "it began before `two` was told");
        assert_eq!(tell(&None, late), two);
        assert_eq!(telling.revision(), two);
        // Policies that are taken back are news again.
        let next = telling.begin();
        assert_eq!(tell(&one, next), one);
    }

    #[test]
    fn it_is_due_once_per_patience() {
        let (telling, clock) = (Telling::default(), Clock::manual(1_000));
        let patience = Duration::from_secs(1);
        telling.tell(Some(&"one".into()), telling.begin(), &clock.now());
        assert!(!telling.is_due(&clock.now(), patience));
        clock.advance(Duration::from_secs(2));
        assert!(telling.is_due(&clock.now(), patience));
        assert!(!telling.is_due(&clock.now(), patience));
    }
}
