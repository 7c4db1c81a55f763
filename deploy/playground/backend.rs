//! A small backend: echoes what it received, plays the user API, counts.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::spans::Spans;
use super::{Error, echo, users};

/// An answer's body; the error never happens.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// Response header that repeats the values of the watched request header.
const SAW: &str = "x-backend-saw";

/// How many different values of the watched header are told apart.
const DISTINCT: usize = 64;

/// What the backend counts, and how it is told to misbehave.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    /// Answer every request with the same few bytes: the backend of a load figure.
    fixed: bool,
    /// Request header whose values are counted, lower-case.
    watch: Option<String>,
    /// Status that the user API answers with; 0: its own.
    pub(crate) user_status: AtomicU16,
    /// How long the user API takes, milliseconds.
    pub(crate) user_delay: AtomicU64,
    /// What the user API answers instead of what it knows.
    pub(crate) user_profile: Mutex<Option<Value>>,
    /// Whether the user API's answers end before what their length says.
    pub(crate) user_cut: AtomicBool,
    /// Where its spans go.
    pub(crate) spans: OnceLock<Spans>,
    requests: AtomicU64,
    user_calls: AtomicU64,
    watched: Mutex<BTreeMap<Vec<u8>, u64>>,
    absent: AtomicU64,
}

impl Backend {
    /// A backend that counts the values of the request header `watch`; `fixed` makes it answer
    /// with the same few bytes.
    pub(crate) fn new(fixed: bool, watch: Option<String>) -> Arc<Self> {
        Arc::new(Self { fixed, watch, ..Self::default() })
    }

    /// Requests other than to the user API and the counters.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Requests to the user API.
    pub(crate) fn user_calls(&self) -> u64 {
        self.user_calls.load(Ordering::SeqCst)
    }

    /// The counters as JSON; `values` maps the watched header's values to their number.
    pub(crate) fn stats(&self) -> Value {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let values: serde_json::Map<String, Value> =
            watched.iter().map(|(value, n)| (echo::escaped(value), json!(n))).collect();
        json!({
            "requests": self.requests(), "user_calls": self.user_calls(),
            "absent": self.absent.load(Ordering::SeqCst), "values": values,
        })
    }

    fn count(&self, headers: &HeaderMap) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let Some(name) = &self.watch else { return };
        let mut seen = headers.get_all(name).iter().peekable();
        if seen.peek().is_none() {
            self.absent.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for value in seen {
            if let Some(n) = watched.get_mut(value.as_bytes()) {
                *n += 1;
            } else if watched.len() < DISTINCT {
                watched.insert(value.as_bytes().to_vec(), 1);
            }
        }
    }

    /// Answers, in a span of its own where the caller is in one.
    async fn traced(&self, request: Request<Incoming>) -> Response<Body> {
        let Some((spans, span)) = self.spans.get().zip(Spans::begin(request.headers())) else {
            return self.answer_or_500(request).await;
        };
        let user = request.uri().path() == "/user/profile";
        let service = if user { "user-api" } else { "backend" };
        let name = request.method().to_string();
        let answer = self.answer_or_500(request).await;
        // A collector that is not there is no matter of the answer.
        drop(spans.end(span, service, &name, answer.status().as_u16()).await);
        answer
    }

    async fn answer_or_500(&self, request: Request<Incoming>) -> Response<Body> {
        self.answer(request).await.unwrap_or_else(|error| {
            let mut answer = Response::new(echo::full(format!("{error}\n")));
            *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            answer
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Error> {
        match request.uri().path() {
            "/stats" => return echo::json(StatusCode::OK, &self.stats()),
            "/user/profile" => return self.user(request.headers()).await,
            _ => self.count(request.headers()),
        }
        if self.fixed {
            if !request.body().is_end_stream() {
                // A body that was not read would end the connection.
                request.into_body().collect().await?;
            }
            return Ok(Response::new(echo::full("{\"ok\":true}\n")));
        }
        if request.headers().get(UPGRADE).is_some_and(|v| v.as_bytes() == b"websocket") {
            return echo::upgrade(request);
        }
        let grpc = request
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if grpc {
            return echo::grpc(&parts);
        }
        let mut answer = echo::json(StatusCode::OK, &echo::seen(&parts, &body))?;
        for value in self.watch.iter().flat_map(|name| parts.headers.get_all(name)) {
            answer.headers_mut().append(SAW, value.clone());
        }
        Ok(answer)
    }

    async fn user(&self, headers: &HeaderMap) -> Result<Response<Body>, Error> {
        self.user_calls.fetch_add(1, Ordering::SeqCst);
        let delay = Duration::from_millis(self.user_delay.load(Ordering::SeqCst));
        // A sleep of no time is one until the timer's next millisecond.
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if let Ok(status) = StatusCode::from_u16(self.user_status.load(Ordering::SeqCst)) {
            return echo::json(status, &json!({ "message": "as told" }));
        }
        if self.user_cut.load(Ordering::SeqCst) {
            return echo::cut();
        }
        let told = self.user_profile.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(profile) = told {
            return echo::json(StatusCode::OK, &profile);
        }
        let Some(user) = headers.get(AUTHORIZATION).and_then(|v| name_in(v.as_bytes())) else {
            return echo::json(StatusCode::UNAUTHORIZED, &json!({ "message": "no bearer" }));
        };
        match users::profile(&user) {
            Some(profile) => echo::json(StatusCode::OK, &profile),
            None => echo::json(StatusCode::NOT_FOUND, &json!({ "message": "no such user" })),
        }
    }
}

/// The name in a bearer token, which a stand-in does not verify.
fn name_in(authorization: &[u8]) -> Option<String> {
    let token = std::str::from_utf8(authorization).ok()?.strip_prefix("Bearer ")?;
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(claims.get("preferred_username")?.as_str()?.to_owned())
}

/// Serves until dropped; an accept or connection error ends nothing else.
pub(crate) async fn serve(listener: TcpListener, backend: Arc<Backend>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        drop(stream.set_nodelay(true));
        let backend = Arc::clone(&backend);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let backend = Arc::clone(&backend);
                async move { Ok::<_, Infallible>(backend.traced(request).await) }
            });
            let mut begin = [0; 3];
            let http2 = stream.peek(&mut begin).await.is_ok_and(|_| &begin == b"PRI");
            let io = TokioIo::new(stream);
            // A client that goes away in the middle is no news.
            if http2 {
                let connection = http2::Builder::new(TokioExecutor::new());
                drop(connection.serve_connection(io, service).await);
            } else {
                let connection = http1::Builder::new();
                drop(connection.serve_connection(io, service).with_upgrades().await);
            }
        });
    }
}
