//! Evaluations on threads that have other work.
//!
//! A thread that is woken to evaluate, and wakes another to tell, costs a Check more than many an
//! evaluation does. So one that is brief may run where it is asked for, in a window that bounds
//! how long everything else of that thread waits; what does not end in it is evaluated elsewhere.
//! All of them together get two thirds of the time of one thread: where many questions come at
//! once, most are evaluated elsewhere, and what needs no evaluation gets its turn between.

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

/// Since when all time is left over for evaluations; later than now where they took too much.
#[derive(Debug)]
pub(super) struct Spare(Mutex<Instant>);

impl Spare {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Whether an evaluation may begin on this thread.
    pub(super) fn any(&self) -> bool {
        ROOMY.get() && self.any_at(Instant::now())
    }

    fn any_at(&self, now: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // No more is saved up than one evaluation may take.
        let earliest = now.checked_sub(WINDOW).unwrap_or(now);
        *since = (*since).max(earliest);
        *since < now
    }

    pub(super) fn spend(&self, took: Duration) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since += took + took / 2;
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
    fn s6_8_evaluations_leave_a_third_of_a_threads_time_to_other_work() {
        let spare = Spare::new();
        assert!(!spare.any(), "a thread must have room");
        let began = Instant::now();
        let (mut now, mut taken) = (began, Duration::ZERO);
        while now.saturating_duration_since(began) < Duration::from_secs(1) {
            let took = Duration::from_micros(if spare.any_at(now) { 200 } else { 0 });
            spare.spend(took);
            taken += took;
            now += took + Duration::from_micros(1);
        }
        assert!(taken > Duration::from_millis(600), "{taken:?}");
        assert!(taken < Duration::from_millis(670), "{taken:?}");
    }

    #[test]
    fn a_rule_that_took_long_is_not_tried_for_a_while() {
        let brevity = Brevity::default();
        assert!(brevity.likely() && brevity.likely());
        brevity.missed();
        assert_eq!((0..=LONG).filter(|_| brevity.likely()).count(), 1);
    }
}
