//! Evaluations on threads that have other work.
//!
//! A thread that is woken to evaluate, and wakes another to tell, costs a Check more than many an
//! evaluation does. So one that is brief may run where it is asked for, in a window that bounds
//! how long everything else of that thread waits; what does not end in it is evaluated elsewhere.
//! All of them together get half of the time of one thread: where many questions come at once,
//! most are evaluated elsewhere, and what needs no evaluation gets its turn between.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an evaluation may hold up its thread: many times what policies usually take.
pub(super) const WINDOW: Duration = Duration::from_millis(1);
/// Evaluations of a rule that go elsewhere after one that did not end in its window.
const LONG: u32 = 1000;

thread_local! {
    static ROOMY: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread may evaluate beside its other work: its stack has 2 MiB to spare.
pub fn has_room() {
    ROOMY.set(true);
}

/// The time that is left for evaluations.
#[derive(Debug)]
pub(super) struct Spare(Mutex<(Duration, Instant)>);

impl Spare {
    pub(super) fn new() -> Self {
        Self(Mutex::new((WINDOW, Instant::now())))
    }

    /// Whether an evaluation may begin on this thread.
    pub(super) fn any(&self) -> bool {
        ROOMY.get() && !self.left(Instant::now()).is_zero()
    }

    fn left(&self, now: Instant) -> Duration {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = now.saturating_duration_since(spare.1) / 2;
        *spare = (spare.0.saturating_add(earned).min(WINDOW), now);
        spare.0
    }

    pub(super) fn spend(&self, took: Duration) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.0 = spare.0.saturating_sub(took);
    }
}

/// Whether a rule ends in its window.
#[derive(Debug, Default)]
pub(super) struct Brevity(AtomicU32);

impl Brevity {
    /// Whether it is worth a try.
    pub(super) fn likely(&self) -> bool {
        let less = |long: u32| long.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }

    /// It did not.
    pub(super) fn missed(&self) {
        self.0.store(LONG, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_evaluations_take_from_a_thread_is_half_of_its_time() {
        let spare = Spare::new();
        assert!(!spare.any(), "a thread must have room");
        let began = Instant::now();
        let mut taken = Duration::ZERO;
        for step in 0..100_000 {
            let now = began + step * Duration::from_micros(10);
            if !spare.left(now).is_zero() {
                spare.spend(Duration::from_micros(100));
                taken += Duration::from_micros(100);
            }
        }
        let half = Duration::from_millis(500);
        assert!(taken > half.mul_f64(0.9) && taken < half.mul_f64(1.1), "{taken:?}");
    }

    #[test]
    fn a_rule_that_took_long_is_not_tried_for_a_while() {
        let brevity = Brevity::default();
        assert!(brevity.likely() && brevity.likely());
        brevity.missed();
        assert_eq!((0..=LONG).filter(|_| brevity.likely()).count(), 1);
    }
}
