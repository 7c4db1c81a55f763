//! Runs what hyper runs beside a connection: one future per HTTP/2 stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};

use hyper::rt::Executor;
use tokio_util::task::TaskTracker;

/// Polls a stream's future once where it stands, inside the connection's own task, and makes a
/// task of it only if it must wait. A warm Check never waits, so it costs no task, no wake-up of
/// another thread and no further turn of the scheduler: its answer leaves with the connection's
/// next write. What does wait is remembered, so that the drain can wait for it too.
#[derive(Clone)]
pub(super) struct Tracked(pub(super) TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let mut future = Box::pin(future);
        // Nothing that this poll registers to be woken is lost: the task polls anew at once.
        let mut context = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        match polled {
            Ok(std::task::Poll::Pending) => {
                self.0.spawn(future);
            }
            Ok(std::task::Poll::Ready(_)) => {}
            // The stream is reset as its future is dropped; the connection and its other
            // streams go on, as they do when a task panics.
            Err(_) => tracing::error!("a stream's handler panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_is_ready_runs_at_once_and_what_waits_becomes_a_task() {
        let tracker = TaskTracker::new();
        let executor = Tracked(tracker.clone());
        let done = Arc::new(AtomicU32::new(0));
        let (now, later) = (Arc::clone(&done), Arc::clone(&done));
        executor.execute(async move { now.fetch_add(1, Ordering::SeqCst) });
        assert_eq!((done.load(Ordering::SeqCst), tracker.len()), (1, 0));
        let (open, gate) = tokio::sync::oneshot::channel::<()>();
        executor.execute(async move {
            gate.await.unwrap();
            later.fetch_add(1, Ordering::SeqCst)
        });
        assert_eq!((done.load(Ordering::SeqCst), tracker.len()), (1, 1));
        open.send(()).unwrap();
        tracker.close();
        tracker.wait().await;
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn o04_a_panic_stays_in_its_stream() {
        let tracker = TaskTracker::new();
        Tracked(tracker.clone()).execute(async { panic!("planted") });
        assert_eq!(tracker.len(), 0);
    }
}
