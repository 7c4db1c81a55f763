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
