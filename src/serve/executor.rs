//! Spawns what hyper spawns (one task per HTTP/2 stream), so that the drain can wait for it.

use hyper::rt::Executor;
use tokio_util::task::TaskTracker;

/// Spawns onto the runtime and remembers what is still running.
#[derive(Clone)]
pub(super) struct Tracked(pub(super) TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
