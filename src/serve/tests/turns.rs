//! Answers of one turn leave together.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::connection::{Door, Protocol};
use super::resets::frame;
use super::*;

/// A connection whose writes are counted.
struct Counted(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn door() -> Door {
    Door {
        name: "check",
        limits: Arc::default(),
        metrics: Arc::new(Metrics::new()),
        tasks: TaskTracker::new(),
        drain: CancellationToken::new(),
        cut: CancellationToken::new(),
        protocol: Protocol::Http2,
        slots: Arc::new(Semaphore::new(1)),
        failing: Arc::default(),
        loops: Arc::new(EventLoops::none()),
    }
}

/// Frames of the other end until `count` of `kind` have come.
async fn until(stream: &mut DuplexStream, kind: u8, mut count: usize) {
    while count > 0 {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
        count -= usize::from(head[3] == kind);
    }
}

#[tokio::test]
async fn calls_that_came_together_are_answered_in_one_write() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const CALLS: u32 = 6;
    let (mut far, near) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let answer = service_fn(|_: ::http::Request<hyper::body::Incoming>| async {
        let body = Full::new(Bytes::from(vec![b'x'; 1100]));
        Ok::<_, Infallible>(::http::Response::new(body))
    });
    let door = door();
    let (_, admitted) = door.admit().unwrap();
    door.open((Box::new(Counted(near, writes.clone())), None), admitted, None, answer);

    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut out, SETTINGS, 0, 0, &[]);
    far.write_all(&out).await.unwrap();
    until(&mut far, SETTINGS, 2).await;
    let before = writes.load(Ordering::SeqCst);

    out.clear();
    for n in 0..CALLS {
        // GET, http, / and an authority, in HPACK without compression; the end of the stream.
        frame(&mut out, HEADERS, 5, 2 * n + 1, &[0x82, 0x86, 0x84, 0x01, 1, b'x']);
    }
    far.write_all(&out).await.unwrap();
    until(&mut far, DATA, CALLS as usize).await;
    assert_eq!(writes.load(Ordering::SeqCst) - before, 1);
}
