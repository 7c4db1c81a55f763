//! One write for all answers of one turn.
//!
//! HTTP/2 flushes after each stream that it hands out, so Checks that came together and are each
//! decided from memory would leave one by one: a system call, a segment and a wake-up of the peer
//! for each, which is as much as deciding them. Here what is written waits until the connection's
//! task has nothing more to do.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that leave without waiting for more: eight usual answers, so that none waits long for
/// those behind it.
const FULL: usize = 8 * 1024;

/// A stream whose flush is only a promise; its [`Outlet`] keeps it.
pub(super) struct Gathered<S>(Arc<Mutex<Shared<S>>>);

/// Sends what was gathered.
pub(super) struct Outlet<S>(Arc<Mutex<Shared<S>>>);

struct Shared<S> {
    stream: S,
    waiting: Vec<u8>,
    /// How much of `waiting` is sent already.
    sent: usize,
    /// The stream itself may still hold what it was given.
    unflushed: bool,
}

/// The same stream for the protocol, which reads and writes, and for the task that owns the
/// connection, which sends after every turn. Both belong to one task, so neither ever waits for
/// the other's lock.
pub(super) fn gathered<S>(stream: S) -> (Gathered<S>, Outlet<S>) {
    let shared = Shared { stream, waiting: Vec::new(), sent: 0, unflushed: false };
    let shared = Arc::new(Mutex::new(shared));
    (Gathered(Arc::clone(&shared)), Outlet(shared))
}

fn locked<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> Outlet<S> {
    /// Sends what waits.
    ///
    /// # Errors
    /// What the stream says; it is of no use after that.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        locked(&self.0).poll_send(cx)
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.waiting.get(self.sent..) {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
            self.unflushed = true;
        }
        self.waiting.clear();
        self.sent = 0;
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut locked(&self.0).stream).poll_read(cx, into)
    }
}

/// It takes one buffer at a time: by this HTTP/2 knows that it may copy small parts together.
impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut shared = locked(&self.0);
        if shared.waiting.len() + bytes.len() > FULL {
            ready!(shared.poll_send(cx))?;
        }
        if bytes.len() > FULL {
            shared.unflushed = true;
            return Pin::new(&mut shared.stream).poll_write(cx, bytes);
        }
        shared.waiting.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = locked(&self.0);
        ready!(shared.poll_send(cx))?;
        Pin::new(&mut shared.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Takes as much at each write as it is told, or nothing yet.
    #[derive(Default)]
    struct Slow {
        takes: VecDeque<Option<usize>>,
        writes: Vec<Vec<u8>>,
        flushed: usize,
        closed: bool,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let Some(most) = self.takes.pop_front().unwrap_or(Some(usize::MAX)) else {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            };
            let taken = bytes.len().min(most);
            self.writes.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushed = self.writes.len();
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.closed = true;
            Poll::Ready(Ok(()))
        }
    }

    fn slow(takes: impl IntoIterator<Item = Option<usize>>) -> (Gathered<Slow>, Outlet<Slow>) {
        gathered(Slow { takes: takes.into_iter().collect(), ..Slow::default() })
    }

    async fn send<S: AsyncWrite + Unpin>(outlet: &Outlet<S>) -> io::Result<()> {
        std::future::poll_fn(|cx| outlet.poll_send(cx)).await
    }

    #[tokio::test]
    async fn what_was_flushed_bit_by_bit_leaves_in_one_write() {
        let (mut io, outlet) = slow([]);
        for part in ["ab", "cd", "ef"] {
            io.write_all(part.as_bytes()).await.unwrap();
            io.flush().await.unwrap();
        }
        assert!(locked(&outlet.0).writes().is_empty(), "nothing leaves before its turn ends");
        send(&outlet).await.unwrap();
        send(&outlet).await.unwrap();
        assert_eq!(locked(&outlet.0).writes(), [b"abcdef"]);
        assert_eq!(locked(&outlet.0).stream.flushed, 1);
        io.write_all(b"g").await.unwrap();
        io.shutdown().await.unwrap();
        let shared = locked(&outlet.0);
        assert_eq!(shared.writes(), [&b"abcdef"[..], b"g"]);
        assert!(shared.stream.closed);
    }

    impl Shared<Slow> {
        fn writes(&self) -> &[Vec<u8>] {
            &self.stream.writes
        }
    }

    #[tokio::test]
    async fn much_leaves_early_and_what_the_peer_does_not_take_is_kept() {
        let parts = [10, FULL - 20, 50, FULL, FULL + 1, 3, 3 * FULL, 1];
        let all: Vec<u8> = (0..=255).cycle().take(parts.iter().sum()).collect();
        let takes = [Some(7), None, Some(1), None, None, Some(FULL), Some(5)];
        let (mut io, outlet) = slow(takes);
        let mut rest = &all[..];
        for part in parts {
            let (now, later) = rest.split_at(part);
            io.write_all(now).await.unwrap();
            io.flush().await.unwrap();
            assert!(locked(&outlet.0).waiting.len() <= FULL, "what waits is bounded");
            rest = later;
        }
        assert!(locked(&outlet.0).writes().concat() != all, "some still waits");
        send(&outlet).await.unwrap();
        assert!(locked(&outlet.0).writes().concat() == all, "in order, and once");
    }

    #[tokio::test]
    async fn a_stream_that_takes_no_more_ends_it() {
        let (mut io, outlet) = slow([Some(0)]);
        io.write_all(b"x").await.unwrap();
        assert_eq!(send(&outlet).await.unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    #[tokio::test]
    async fn reading_goes_through() {
        let (near, mut far) = tokio::io::duplex(64);
        let (mut io, outlet) = gathered(near);
        far.write_all(b"asked").await.unwrap();
        let mut five = [0; 5];
        io.read_exact(&mut five).await.unwrap();
        io.write_all(b"said").await.unwrap();
        send(&outlet).await.unwrap();
        let mut four = [0; 4];
        far.read_exact(&mut four).await.unwrap();
        assert_eq!((&five, &four), (b"asked", b"said"));
    }
}
