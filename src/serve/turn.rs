//! A connection's turn: polled until it has nothing more to do, then what it wrote is sent.
//!
//! A Check that is decided where its connection is polled wakes that connection, for its answer is
//! to be written. Left to the runtime, such a wake-up takes a second worker out of its sleep, and
//! the connection may move to it, for every Check. Here it is one more poll.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::io::AsyncWrite;

use super::gathered::Outlet;

/// Polls of one turn. One that wants more lets the others of its thread have theirs first.
const POLLS: usize = 3;

const IDLE: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Wakes a connection's task, unless the task is at it just now.
#[derive(Default)]
struct Bell {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(IDLE) {
            self.task.wake();
        }
    }
}

impl Bell {
    /// Polls `future` until it ends or waits for something else than itself.
    fn poll<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        task: &Waker,
        inner: &Waker,
    ) -> Poll<F::Output> {
        self.task.register(task);
        for _ in 0..POLLS {
            self.state.store(POLLED, Ordering::Release);
            let polled = future.as_mut().poll(&mut Context::from_waker(inner));
            // What rang since then is heard here, and what rings from now on wakes the task.
            let rang = self.state.swap(IDLE, Ordering::AcqRel) == WOKEN;
            if polled.is_ready() || !rang {
                return polled;
            }
        }
        task.wake_by_ref();
        Poll::Pending
    }
}

/// Drives a connection until it or what it writes to ends, and sends after each of its turns what
/// it wrote.
pub(super) async fn turns<F: Future, S: AsyncWrite + Unpin>(
    mut connection: Pin<&mut F>,
    outlet: &Outlet<S>,
) {
    let bell = Arc::new(Bell::default());
    let inner = Waker::from(Arc::clone(&bell));
    poll_fn(|cx| {
        let ended = bell.poll(connection.as_mut(), cx.waker(), &inner).is_ready();
        match outlet.poll_send(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            // What a connection that ended could not send at once is lost, as its peer is.
            _ if ended => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls a future once that wakes itself in its first `times` polls; how often it was polled,
    /// and how often its task was woken.
    fn turn_of(times: usize) -> (usize, usize) {
        let (woken, bell) = (Arc::new(Counter::default()), Arc::new(Bell::default()));
        let inner = Waker::from(Arc::clone(&bell));
        let mut polls = 0;
        let future = poll_fn(|cx| {
            polls += 1;
            if polls <= times {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert!(bell.poll(pin!(future), &Waker::from(Arc::clone(&woken)), &inner).is_pending());
        let before = woken.0.load(Ordering::SeqCst);
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), before + 1, "between turns the task is woken");
        (polls, before)
    }

    #[test]
    fn who_wakes_himself_is_polled_again_and_wakes_nobody() {
        assert_eq!(turn_of(0), (1, 0));
        assert_eq!(turn_of(1), (2, 0));
        assert_eq!(turn_of(2), (3, 0));
        assert_eq!(turn_of(9), (POLLS, 1), "others have their turn");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_call_of_another_thread_is_missed() {
        let (send, receive) = std::sync::mpsc::channel::<Waker>();
        let rung = Arc::new(AtomicUsize::new(0));
        let other = Arc::clone(&rung);
        let ringing = std::thread::spawn(move || {
            for waker in receive {
                other.fetch_add(1, Ordering::SeqCst);
                waker.wake();
            }
        });
        let (mut asked, bell) = (0, Arc::new(Bell::default()));
        let inner = Waker::from(Arc::clone(&bell));
        let mut future = pin!(poll_fn(|cx| {
            if rung.load(Ordering::SeqCst) < asked {
                return Poll::Pending;
            }
            if asked == 20_000 {
                return Poll::Ready(());
            }
            asked += 1;
            send.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }));
        let driven = poll_fn(|cx| bell.poll(future.as_mut(), cx.waker(), &inner));
        tokio::time::timeout(std::time::Duration::from_mins(1), driven).await.unwrap();
        drop(send);
        ringing.join().unwrap();
    }
}
