//! Accept loops and the life of one connection.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::config::Limits;
use super::event_loops::{EventLoops, Seat};
use super::executor::Tracked;
use super::gathered::{Outlet, gathered};
use super::listener::{Bound, Fresh, Stream};
use super::tls::{Material, Tls};
use super::turn::turns;
use crate::model::BoxFuture;
use crate::telemetry::Metrics;

/// A pause after an accept error that does not pass by itself, such as too many open files.
const BACK_OFF: Duration = Duration::from_millis(50);
/// A connection that was asked to end for its age and still lives after this is cut. Checks
/// are bounded far below; only a stream that never ends is met.
const AGE_GRACE: Duration = Duration::from_secs(30);
/// Longest header list of one request; Envoy's own default bound is 60 KiB.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// Room for a usual Check in one flight, and for several large ones on a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Who is at the other end: a process on a Unix socket, or the name of a certificate.
#[derive(Debug, Clone)]
pub(super) struct Peer(pub Arc<str>);

/// A stream, and who is at its other end as far as that is known.
pub(super) type Accepted = (Box<dyn Stream>, Option<Peer>);

/// Answers the requests of connections, many at once and on any thread.
pub(super) trait Serves:
    Service<
        Request<Incoming>,
        Response = Response<<Self as Serves>::Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + Sync
    + 'static
{
    /// Body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;
}

impl<S, B> Serves for S
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Body = B;
}

/// What the connections of one door share.
#[derive(Clone)]
pub(super) struct Door {
    pub name: &'static str,
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    /// Every task of this door: accept loops, connections and streams.
    pub tasks: TaskTracker,
    /// Stop accepting and ask connections to end.
    pub drain: CancellationToken,
    /// Drop what is left.
    pub cut: CancellationToken,
    /// The protocol spoken.
    pub protocol: Protocol,
    pub slots: Arc<Semaphore>,
    /// Whether connections could not be accepted of late, and the log says so.
    pub failing: Arc<AtomicBool>,
    /// Where its connections are served.
    pub loops: Arc<EventLoops>,
}

/// What a door speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// gRPC: HTTP/2 with prior knowledge.
    Http2,
    /// People and scrapers.
    Http1,
}

impl Door {
    /// Serves one address until the drain.
    pub(super) fn listen(&self, bound: Bound, service: impl Serves + Clone) {
        let door = self.clone();
        self.tasks.spawn(async move {
            while let Some(accepted) = door.drain.run_until_cancelled(bound.socket.accept()).await {
                match accepted {
                    Ok(fresh) => door.place(fresh, bound.tls.clone(), service.clone()),
                    Err(error) => {
                        if door.accept_error(&error) {
                            sleep(BACK_OFF).await;
                        }
                    }
                }
            }
            // Dropping the socket here refuses new connections and removes a Unix socket.
        });
    }

    /// Counts it and logs the first of a row. Says whether waiting may help.
    fn accept_error(&self, error: &io::Error) -> bool {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        self.metrics.accept_error(self.name);
        if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            return false;
        }
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(door = self.name, %error, "a connection could not be accepted");
        }
        true
    }

    /// A place for a connection, and the runtime to serve it on; `None` where there are as many
    /// connections as there may be: it is closed at once, so that the peer can try another replica.
    pub(super) fn admit(&self) -> Option<(Handle, Admitted)> {
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            self.metrics.accept_error(self.name);
            return None;
        };
        let (runtime, seat) = self.loops.least_taken();
        Some((runtime, Admitted { _seat: seat, _slot: slot, _count: Count::new(self) }))
    }

    /// Gives a connection to the event loop that has the fewest.
    fn place(&self, fresh: Fresh, tls: Option<Arc<Tls>>, service: impl Serves) {
        let Some((runtime, admitted)) = self.admit() else { return };
        let door = self.clone();
        let placed = async move {
            match fresh.watched() {
                Ok(accepted) => {
                    door.failing.store(false, Ordering::Relaxed);
                    door.open(accepted, admitted, tls.as_ref(), service);
                }
                Err(error) => {
                    door.accept_error(&error);
                }
            }
        };
        self.tasks.spawn_on(placed, &runtime);
    }

    pub(super) fn open(
        &self,
        (stream, peer): Accepted,
        admitted: Admitted,
        tls: Option<&Arc<Tls>>,
        service: impl Serves,
    ) {
        let seen = Arc::new(AtomicBool::new(false));
        // The other doors do not ask, and each request of theirs would pay for it.
        let told = self.name == "control";
        let peer = peer.filter(|_| told);
        let mut service = Watched { inner: service, seen: seen.clone(), peer };
        let open = Open { door: self.clone(), seen, _admitted: admitted };
        let Some(tls) = tls else { return open.serve(stream, service) };
        let shaken = handshake(self.clone(), stream, tls.material());
        self.tasks.spawn(async move {
            if let Some((stream, name)) = shaken.await {
                service.peer = name.filter(|_| told);
                open.serve(stream, service);
            }
        });
    }

    fn http2(&self) -> http2::Builder<Tracked> {
        let limits = &self.limits;
        let mut builder = http2::Builder::new(Tracked(self.tasks.clone()));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.max_concurrent_streams)
            // Every stream of a connection may be cancelled at once: that is no attack here.
            .max_pending_accept_reset_streams(limits.max_concurrent_streams as usize)
            .max_header_list_size(MAX_HEADER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(limits.keepalive.0)
            .keep_alive_timeout(limits.keepalive_timeout.0);
        builder
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout.0)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
    }
}

/// The gauge of open connections, however they end.
struct Count(prometheus_client::metrics::gauge::Gauge);

impl Count {
    fn new(door: &Door) -> Self {
        let gauge = door.metrics.connections(door.name);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.dec();
    }
}

struct Open {
    door: Door,
    seen: Arc<AtomicBool>,
    _admitted: Admitted,
}

/// A connection's place among those that the door may have.
pub(super) struct Admitted {
    _seat: Option<Seat>,
    _slot: OwnedSemaphorePermit,
    _count: Count,
}

impl Open {
    /// Begins to serve the connection, in a task of its own.
    fn serve(self, stream: Box<dyn Stream>, service: impl Serves) {
        let ((io, outlet), door) = (gathered(stream), self.door.clone());
        let io = TokioIo::new(io);
        match door.protocol {
            Protocol::Http2 => {
                let connection = door.http2().serve_connection(io, service);
                door.tasks.spawn(self.run(connection, outlet));
            }
            Protocol::Http1 => {
                let connection = door.http1().serve_connection(io, service);
                door.tasks.spawn(self.run(connection, outlet));
            }
        }
    }

    /// Drives a connection to its end: its own, or the drain's, its age's or its idleness'.
    async fn run<C>(self, connection: C, outlet: Outlet<Box<dyn Stream>>)
    where
        C: GracefulConnection + Send + 'static,
    {
        let limits = &self.door.limits;
        let mut connection = pin!(connection);
        let mut first = pin!(sleep(limits.handshake_timeout.0));
        let mut age = pin!(sleep(jittered(limits.max_connection_age.0)));
        let (mut waits_for_first, mut leaving) = (true, false);
        loop {
            tokio::select! {
                biased;
                () = self.door.cut.cancelled() => return,
                () = turns(connection.as_mut(), &outlet) => return,
                () = self.door.drain.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                    // The drain itself cuts in its time.
                    age.as_mut().reset(tokio::time::Instant::now() + AGE_GRACE);
                }
                () = first.as_mut(), if waits_for_first => {
                    if !self.seen.load(Ordering::Relaxed) {
                        return;
                    }
                    waits_for_first = false;
                }
                () = age.as_mut() => {
                    if leaving {
                        return;
                    }
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                    age.as_mut().reset(tokio::time::Instant::now() + AGE_GRACE);
                }
            }
        }
    }
}

/// TLS within its time, with a peer that may connect; otherwise nothing is served.
fn handshake(
    door: Door,
    stream: Box<dyn Stream>,
    material: Arc<Material>,
) -> BoxFuture<'static, Option<Accepted>> {
    Box::pin(async move {
        let accepted = timeout(door.limits.handshake_timeout.0, material.acceptor.accept(stream));
        let accepted = door.drain.run_until_cancelled(accepted).await?;
        let why = match accepted {
            Ok(Ok(stream)) if material.admits(stream.get_ref().1.peer_certificates()) => {
                let name = material.name(stream.get_ref().1.peer_certificates());
                return Some((Box::new(stream) as Box<dyn Stream>, name.map(Peer)));
            }
            Ok(Ok(_)) => "peer",
            Ok(Err(_)) => "handshake",
            Err(_) => "timeout",
        };
        door.metrics.in_force.refused(door.name, why);
        None
    })
}

/// Up to a tenth less, so that connections opened together do not end together.
fn jittered(age: Duration) -> Duration {
    let mut byte = [0];
    // Without random bytes there is no jitter, and no harm.
    let _ = getrandom::fill(&mut byte);
    age.saturating_sub(age.mul_f64(f64::from(byte[0]) / 2560.0))
}

/// Notes the first request of a connection.
struct Watched<S> {
    inner: S,
    seen: Arc<AtomicBool>,
    /// Who is there, for a door that asks.
    peer: Option<Peer>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Watched<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        self.seen.store(true, Ordering::Relaxed);
        self.inner.call(request)
    }
}
