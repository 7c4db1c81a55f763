//! A small HTTP server on loopback for tests: answers by a closure and counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// What the stub answers.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    pub(crate) after: Duration,
}

impl Reply {
    /// `status` with a JSON body.
    pub(crate) fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.into(), after: Duration::ZERO }
    }

    /// With a header more.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Answered late.
    pub(crate) fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }
}

/// A request that the stub got.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
}

/// The running server; it ends with its runtime.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    /// Such as `http://127.0.0.1:12345`.
    pub(crate) origin: String,
    calls: Arc<AtomicUsize>,
}

impl Stub {
    /// Starts on a free port.
    pub(crate) async fn start(answer: impl Fn(Got) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(AtomicUsize::new(0));
        let (answer, counted) = (Arc::new(answer), Arc::clone(&calls));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let target = request.uri().path_and_query().unwrap().to_string();
                        let reply = answer(Got { target, headers: request.headers().clone() });
                        respond(reply)
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { origin, calls }
    }

    /// How many requests came.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn respond(reply: Reply) -> Result<http::Response<Full<Bytes>>, std::convert::Infallible> {
    tokio::time::sleep(reply.after).await;
    let mut response = http::Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    Ok(response.body(Full::new(reply.body)).unwrap())
}
