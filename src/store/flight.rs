//! One load per key however many wait for it.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::telemetry::trace;

/// Coalesces loads: the first to ask for a key starts its load, everyone who asks before it ends
/// waits for the same result. Whoever leaves, the first too, disturbs nobody: the load goes on.
/// Nothing is kept once it has ended.
pub struct Flight<K, V>(Arc<Mutex<HashMap<K, UnderWay<V>>>>);

type Load<V> = Shared<BoxFuture<'static, Option<V>>>;

/// A load, and the span of whoever started it.
type UnderWay<V> = (Load<V>, Option<trace::Current>);

impl<K, V> Clone for Flight<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> Default for Flight<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, V> std::fmt::Debug for Flight<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flight")
    }
}

/// Takes the load out of the map even if it panics.
struct Landing<K: Hash + Eq, V>(Flight<K, V>, Option<K>);

impl<K: Hash + Eq, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        if let Some(key) = self.1.take() {
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }
}

/// A load in the hands of whoever started it: it runs there, since another task would have to be
/// woken, and wake in its turn. Where it is left, it becomes a task of its own.
struct Led(Option<BoxFuture<'static, ()>>);

impl Future for Led {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(load) = &mut self.0 {
            ready!(load.as_mut().poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        // Without a runtime there is nobody left who could wait.
        if let (Some(load), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(load);
        }
    }
}

impl<K, V> Flight<K, V>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The result of the load of `key`, started with `load` if none is under way. The flag says
    /// whether this call started it. `None` if the load panicked.
    pub async fn join<F>(&self, key: K, load: impl FnOnce() -> F) -> (bool, Option<V>)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let (led, waiting) = {
            let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((under_way, started_by)) = loads.get(&key) {
                trace::wait_for(started_by.as_ref());
                (None, under_way.clone())
            } else {
                let landing = Landing(self.clone(), Some(key.clone()));
                let (send, receive) = oneshot::channel();
                // A load shows in the trace of the Check that started it, also past that Check's end.
                let load = AssertUnwindSafe(trace::carry(load())).catch_unwind();
                let led = async move {
                    let loaded = load.await;
                    drop(landing);
                    // Of a load that panicked its waiters hear by the sender's end.
                    if let Ok(value) = loaded {
                        drop(send.send(value));
                    }
                };
                let shared = receive.map(Result::ok).boxed().shared();
                loads.insert(key, (shared.clone(), trace::current()));
                (Some(Led(Some(led.boxed()))), shared)
            }
        };
        let leads = led.is_some();
        if let Some(led) = led {
            led.await;
        }
        (leads, waiting.await)
    }

    /// The result of the load of `key` that is under way; starts none. `None` if there is none,
    /// or it panicked.
    pub async fn wait(&self, key: &K) -> Option<V> {
        let under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()?.0;
        under_way.await
    }

    /// How many loads are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn c05_one_load_serves_all_and_a_cancelled_leader_harms_nobody() {
        let flight = Flight::<&str, u32>::default();
        let loads = Arc::new(AtomicU32::new(0));
        let ask = |flight: Flight<&'static str, u32>, loads: Arc<AtomicU32>| async move {
            let load = || async move {
                loads.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                7
            };
            flight.join("user", load).await.1
        };
        let leader = tokio::spawn(ask(flight.clone(), loads.clone()));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let waiters: Vec<_> =
            (0..49).map(|_| tokio::spawn(ask(flight.clone(), loads.clone()))).collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        leader.abort();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), Some(7));
        }
        assert_eq!(loads.load(Ordering::SeqCst), 1);
        assert_eq!(flight.under_way(), 0);
    }

    #[tokio::test]
    async fn s5_4_a_load_that_all_have_left_goes_on() {
        let flight = Flight::<u8, u8>::default();
        let (end, ended) = oneshot::channel();
        let load = || async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            end.send(()).unwrap();
            1
        };
        let left = tokio::time::timeout(Duration::from_millis(5), flight.join(1, load)).await;
        assert!(left.is_err() && flight.under_way() == 1);
        ended.await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(flight.under_way(), 0);
    }

    #[tokio::test]
    async fn a_load_that_panics_is_not_kept() {
        let flight = Flight::<u8, u8>::default();
        let (led, lost) = flight.join(1, || async { panic!("planted") }).await;
        assert!(led && lost.is_none());
        assert_eq!(flight.join(1, || async { 2 }).await, (true, Some(2)));
    }
}
