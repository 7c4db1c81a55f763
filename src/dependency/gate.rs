//! Bounded concurrency with a bounded queue.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::CallError;

/// Lets so many calls run at once and so many more wait; others are shed.
#[derive(Debug)]
pub(super) struct Gate {
    places: Semaphore,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// One that waits; leaving in any way ends it.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    pub(super) fn new(max_in_flight: usize, max_waiting: usize) -> Self {
        let places = Semaphore::new(max_in_flight.clamp(1, Semaphore::MAX_PERMITS));
        Self { places, waiting: AtomicUsize::new(0), max_waiting }
    }

    /// A place among the calls, held until it is dropped.
    pub(super) async fn enter(&self) -> Result<SemaphorePermit<'_>, CallError> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(CallError::Shed);
        }
        let _waiting = Waiting(&self.waiting);
        self.places.acquire().await.map_err(|_| CallError::Shed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn s8_5_calls_beyond_the_queue_are_shed_and_a_waiter_that_leaves_makes_room() {
        let gate = Gate::new(1, 1);
        let first = gate.enter().await.unwrap();
        let left = tokio::time::timeout(Duration::from_millis(5), gate.enter()).await;
        assert!(left.is_err(), "the second waits");
        let waiter = gate.enter();
        tokio::pin!(waiter);
        assert!(futures_util::poll!(waiter.as_mut()).is_pending());
        assert_eq!(gate.enter().await.err(), Some(CallError::Shed));
        drop(first);
        assert!(waiter.await.is_ok());
        assert!(gate.enter().await.is_ok());
    }
}
