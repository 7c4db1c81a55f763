//! The threads that evaluate.
//!
//! An evaluation computes and does not wait, for about its limit of CPU time; on the runtime's own
//! threads a long one would hold up every Check whose task that thread has. So evaluations that
//! are not over in a moment, or come many at once, have threads of their own, one per core. `spawn_blocking` would do the same with a thread per
//! evaluation that waits, hundreds of them under load, each with an engine; and handing over to
//! a thread that is there costs about 10 µs either way (see `benches/policy.rs`), which only
//! Checks pay whose decision is in no cache.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may wait; beyond, a Check is better told at once.
const MAX_WAITING: usize = 1024;

/// How long a job may wait: whoever asked has gone by then, and evaluating for nobody would
/// keep those waiting who have not.
const MAX_AGE: Duration = Duration::from_millis(500);

/// Twice what an evaluation needs at most; only what is touched takes memory.
const STACK: usize = 4 << 20;

/// A few threads and their queue. The threads end when it is dropped.
#[derive(Debug)]
pub(super) struct Workers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workers")
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Instant, Job)>,
    closed: bool,
}

impl Workers {
    /// Starts `threads` of them.
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let workers = Self(Arc::default());
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&workers.0);
            let thread = thread::Builder::new().name("policy".to_owned()).stack_size(STACK);
            thread.spawn(move || shared.run())?;
        }
        Ok(workers)
    }

    /// Queues `job`; `false` where too many wait already.
    pub(super) fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.jobs.len() >= MAX_WAITING {
            return false;
        }
        queue.jobs.push_back((Instant::now(), Box::new(job)));
        drop(queue);
        self.0.ready.notify_one();
        true
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.0.ready.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        while let Some(job) = self.next() {
            // A job that panics drops its sender, which its waiter sees.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while let Some((submitted, job)) = queue.jobs.pop_front() {
                if submitted.elapsed() < MAX_AGE {
                    return Some(job);
                }
            }
            if queue.closed {
                return None;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_even_after_one_panicked_and_the_queue_is_bounded() {
        let workers = Workers::new(1).unwrap();
        let (send, receive) = mpsc::channel();
        let (block, blocked) = mpsc::channel::<()>();
        assert!(workers.submit(|| panic!("planted")));
        let (start, started) = mpsc::channel();
        assert!(workers.submit(move || {
            start.send(()).unwrap();
            assert!(blocked.recv().is_err());
        }));
        started.recv().unwrap();
        let mut taken = 0;
        while workers.submit({
            let send = send.clone();
            move || send.send(()).unwrap()
        }) {
            taken += 1;
        }
        assert_eq!(taken, MAX_WAITING);
        drop(block);
        drop(send);
        assert_eq!(receive.iter().count(), MAX_WAITING);
    }

    #[test]
    fn a_job_that_waited_too_long_is_dropped_and_its_waiter_told() {
        let workers = Workers::new(1).unwrap();
        let (start, started) = mpsc::channel();
        assert!(workers.submit(move || {
            start.send(()).unwrap();
            std::thread::sleep(MAX_AGE + Duration::from_millis(50));
        }));
        started.recv().unwrap();
        let (send, receive) = mpsc::channel::<()>();
        assert!(workers.submit(move || send.send(()).unwrap()));
        assert!(receive.recv().is_err());
        let (send, receive) = mpsc::channel::<()>();
        assert!(workers.submit(move || send.send(()).unwrap()));
        assert!(receive.recv().is_ok(), "the thread goes on");
    }
}
