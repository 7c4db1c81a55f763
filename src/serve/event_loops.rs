//! Threads that each serve connections of their own, as Envoy's workers do.
//!
//! Most Checks are decided at once, where their connection is polled. A runtime that shares its
//! tasks among threads wakes a second thread whenever the first finds something to do, which takes
//! as long as deciding; here whoever hears a connection also answers it. What a Check must wait
//! for is waited for on the same thread.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Threads with an event loop each. They end once this is dropped, and drop what they still serve.
#[derive(Debug)]
pub struct EventLoops(Vec<EventLoop>);

#[derive(Debug)]
struct EventLoop {
    runtime: Handle,
    /// One reference, and one more for each connection.
    seats: Arc<()>,
    /// Dropped to end it; closed once its thread has ended.
    running: oneshot::Sender<()>,
}

/// A connection's share of its event loop, for as long as it lives.
#[derive(Debug)]
pub(super) struct Seat(#[expect(dead_code, reason = "counted")] Arc<()>);

impl EventLoops {
    /// Starts `threads` of them, with a stack of `stack` bytes each; `on_start` runs first on each.
    ///
    /// # Errors
    /// If a thread or what it waits with cannot be had.
    pub fn start(threads: usize, stack: usize, on_start: fn()) -> io::Result<Self> {
        (0..threads)
            .map(|n| EventLoop::start(n, stack, on_start))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// None: connections are served where they are accepted.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// The one with the fewest connections of those that live; where there is none, the runtime of
    /// whoever asks.
    pub(super) fn least_taken(&self) -> (Handle, Option<Seat>) {
        let living = self.0.iter().filter(|all| !all.running.is_closed());
        match living.min_by_key(|all| Arc::strong_count(&all.seats)) {
            Some(chosen) => (chosen.runtime.clone(), Some(Seat(Arc::clone(&chosen.seats)))),
            None => (Handle::current(), None),
        }
    }
}

impl EventLoop {
    fn start(n: usize, stack: usize, on_start: fn()) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name(format!("checks-{n}")).stack_size(stack).spawn(move || {
            on_start();
            let _ = runtime.block_on(ended);
            // A look-up of a name that hangs has a thread of its own, which must not keep this one.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, seats: Arc::default(), running })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const STACK: usize = 1 << 20;

    async fn thread_of(runtime: &Handle) -> String {
        let name = || thread::current().name().unwrap_or_default().to_owned();
        runtime.spawn(async move { name() }).await.unwrap()
    }

    #[tokio::test]
    async fn connections_are_shared_out_evenly_also_after_some_have_ended() {
        let loops = EventLoops::start(3, STACK, || {}).unwrap();
        let mut seats = HashMap::<_, Vec<Seat>>::new();
        for _ in 0..9 {
            let (runtime, seat) = loops.least_taken();
            seats.entry(thread_of(&runtime).await).or_default().push(seat.unwrap());
        }
        let mut counts: Vec<_> = seats.iter().map(|(name, seats)| (&**name, seats.len())).collect();
        counts.sort_unstable();
        assert_eq!(counts, [("checks-0", 3), ("checks-1", 3), ("checks-2", 3)]);

        seats.get_mut("checks-1").unwrap().truncate(1);
        let taken: Vec<_> = (0..2).map(|_| loops.least_taken()).collect();
        for (runtime, _) in &taken {
            assert_eq!(thread_of(runtime).await, "checks-1");
        }
    }

    #[tokio::test]
    async fn without_any_a_connection_stays_where_it_was_accepted() {
        let (runtime, seat) = EventLoops::none().least_taken();
        assert_eq!((runtime.id(), seat.is_none()), (Handle::current().id(), true));
    }

    #[tokio::test]
    async fn a_thread_that_has_died_gets_no_connection() {
        let first_dies = || assert_ne!(thread::current().name(), Some("checks-0"), "planted");
        let loops = EventLoops::start(2, STACK, first_dies).unwrap();
        while !loops.0[0].running.is_closed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let taken: Vec<_> = (0..3).map(|_| loops.least_taken()).collect();
        for (runtime, _) in &taken {
            assert_eq!(thread_of(runtime).await, "checks-1");
        }
    }

    #[tokio::test]
    async fn a_thread_is_made_ready_first_and_ends_with_what_it_serves() {
        thread_local!(static READY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        let loops = EventLoops::start(1, STACK, || READY.set(true)).unwrap();
        let (runtime, _seat) = loops.least_taken();
        assert!(runtime.spawn(async { READY.get() }).await.unwrap());

        let (held, dropped) = mpsc::channel::<()>();
        runtime.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(loops);
        let ended = dropped.recv_timeout(Duration::from_secs(10));
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
