//! The HTTP client of one dependency.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderValue};
use ::url::Url;
use bytes::{Bytes, BytesMut};

use super::{About, Answer, BreakerConfig, CallError, Guard, GuardOptions, Response};
use crate::model::Secret;
use crate::telemetry::trace::{self, KeyValue};
use crate::telemetry::{DependencyName, Metrics};

/// How one dependency is called. [`HttpOptions::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Names the dependency in metrics: `jwks:<issuer>`, `user_api`, …
    pub name: DependencyName,
    /// Time to connect, TLS included. Default 2 s.
    pub connect_timeout: Duration,
    /// Time of a whole call: connecting, sending, and the whole answer. The wait for a place before
    /// it may take as long once more. Default 5 s.
    pub timeout: Duration,
    /// Largest body of an answer, in bytes; enforced while it arrives. Default 1 MiB.
    pub max_response: usize,
    /// Calls that run at once. Default 64.
    pub max_in_flight: usize,
    /// Calls that may wait for a place; more are shed. Default 256.
    pub max_waiting: usize,
    /// When the dependency is not called for a while because it fails.
    pub breaker: BreakerConfig,
    /// File of PEM certificates that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether `https` is called at all. Without it the system's certificates are not read, so
    /// that a service that talks to loopback only also starts where there are none.
    pub tls: bool,
    /// Files with a PEM certificate (with its chain) and its key, shown to a server that asks.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Unix socket that is connected to, whatever the URL's host.
    pub unix_socket: Option<PathBuf>,
    /// Speak HTTP/2 from the first byte (RFC 9113, section 3.3), also over plain TCP. Without it
    /// HTTP/2 is spoken where TLS agrees on it.
    pub http2: bool,
    /// An HTTP/2 connection is pinged this often, also while it is idle, and is given up where the
    /// ping is unanswered for as long: one connection carries all calls, and on one that went dead
    /// unseen all would fail. Left out: every 20 s, while calls are under way.
    pub ping: Option<Duration>,
    /// Whether it is told in which trace it is called. Default: no, for it may be a stranger's.
    pub propagate: bool,
}

impl HttpOptions {
    /// The defaults, for the dependency `name`.
    #[must_use]
    pub fn new(name: impl Into<DependencyName>) -> Self {
        Self {
            name: name.into(),
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(5),
            max_response: 1 << 20,
            max_in_flight: 64,
            max_waiting: 256,
            breaker: BreakerConfig::default(),
            ca_file: None,
            tls: true,
            client_certificate: None,
            unix_socket: None,
            http2: false,
            ping: None,
            propagate: false,
        }
    }
}

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The file of certificates cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file of certificates holds none that can be used.
    #[error("`{}` holds no PEM certificate that can be used", .0.display())]
    CaContent(PathBuf),
    /// TLS could not be set up, for instance because the system has no certificates.
    #[error("the HTTP client could not be set up: {0}")]
    Client(String),
}

/// Calls one dependency. Clones share connections, limits and metrics.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

struct Inner {
    client: reqwest::Client,
    guard: Arc<Guard>,
    name: DependencyName,
    max_response: usize,
    propagate: bool,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.0.name).finish()
    }
}

impl Http {
    /// A client for the dependency that `options` describes. Connects to nothing yet.
    ///
    /// # Errors
    /// If the certificates cannot be read.
    pub fn new(options: &HttpOptions, metrics: Arc<Metrics>) -> Result<Self, BuildError> {
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .retry(reqwest::retry::never())
            .referer(false)
            .user_agent(concat!("portcullis/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            .timeout(options.timeout)
            .pool_idle_timeout(Duration::from_mins(1))
            .pool_max_idle_per_host(options.max_in_flight)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(options.ping.unwrap_or(Duration::from_secs(20)))
            .http2_keep_alive_timeout(options.ping.unwrap_or(Duration::from_secs(5)))
            .http2_keep_alive_while_idle(options.ping.is_some())
            .tcp_keepalive(Duration::from_secs(30));
        if options.tls {
            if let Some(path) = &options.ca_file {
                builder = builder.tls_certs_merge(read_certificates(path)?);
            }
        } else {
            builder = builder.tls_certs_only([]);
        }
        if let Some((certificate, key)) = &options.client_certificate {
            builder = builder.identity(read_identity(certificate, key)?);
        }
        if options.http2 {
            builder = builder.http2_prior_knowledge();
        }
        if let Some(path) = &options.unix_socket {
            builder = builder.unix_socket(path.as_path());
        }
        let client = builder.build().map_err(|error| BuildError::Client(error.to_string()))?;
        let guard = GuardOptions {
            name: Arc::clone(&options.name),
            timeout: options.timeout,
            max_in_flight: options.max_in_flight,
            max_waiting: options.max_waiting,
            breaker: options.breaker,
        };
        Ok(Self(Arc::new(Inner {
            client,
            guard: Guard::new(&guard, metrics),
            name: Arc::clone(&options.name),
            max_response: options.max_response,
            propagate: options.propagate,
        })))
    }

    /// `GET url` with `headers`. Every status is an answer, redirects included: what a status
    /// means is for the caller to say.
    ///
    /// # Errors
    /// If no whole answer came within the time-out and the size cap.
    pub async fn get(&self, url: Url, headers: HeaderMap) -> Result<Response, CallError> {
        let client = &self.0.client;
        let request =
            |more: HeaderMap| client.get(url.clone()).headers(headers.clone()).headers(more);
        self.call(("GET", &url), request, |_| None, None).await
    }

    /// As [`Http::get`], for what is `about` one user (a hash of who it is): see
    /// [`Guard::call_about`].
    ///
    /// # Errors
    /// If no whole answer came within the time-out and the size cap.
    pub async fn get_about(
        &self,
        about: u64,
        url: Url,
        headers: HeaderMap,
    ) -> Result<Response, CallError> {
        let client = &self.0.client;
        let request =
            |more: HeaderMap| client.get(url.clone()).headers(headers.clone()).headers(more);
        self.call(("GET", &url), request, |_| None, Some(About { whom: about, silence: false }))
            .await
    }

    /// As [`Http::get`], by `POST` with `body`. For questions only: a call may be made twice.
    /// `judge` says how an answer counts where its status alone misleads: what one question can
    /// bring about is no failure of the dependency. Failures `about` one question (a hash of it)
    /// count once, silence too.
    ///
    /// # Errors
    /// If no whole answer came within the time-out and the size cap.
    pub async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
        about: u64,
        judge: fn(&Response) -> Option<Answer>,
    ) -> Result<Response, CallError> {
        let client = &self.0.client;
        let request = |more: HeaderMap| {
            client.post(url.clone()).headers(headers.clone()).headers(more).body(body.clone())
        };
        self.call(("POST", &url), request, judge, Some(About { whom: about, silence: true })).await
    }

    /// Whether it is not called because of failures that no caller can have brought about.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.guard.is_gone()
    }

    async fn call(
        &self,
        (method, url): (&'static str, &Url),
        request: impl Fn(HeaderMap) -> reqwest::RequestBuilder,
        special: fn(&Response) -> Option<Answer>,
        about: Option<About>,
    ) -> Result<Response, CallError> {
        let inner = &*self.0;
        let judge = |answer: &Response| special(answer).unwrap_or_else(|| judge(answer.status));
        let calling = trace::call();
        let attempt = || {
            let mut headers = HeaderMap::new();
            if let Some(calling) = calling.as_ref().filter(|_| inner.propagate) {
                calling.inject(&mut headers);
            }
            inner.send(request(headers))
        };
        let result = inner.guard.call_about(about, None, true, judge, attempt).await;
        if let Some(calling) = calling {
            calling.end(|| inner.told(method, url, &result));
        }
        result
    }
}

impl Inner {
    /// A call as traces tell of it: neither path nor query, which may name a user.
    fn told(
        &self,
        method: &'static str,
        url: &Url,
        result: &Result<Response, CallError>,
    ) -> trace::Told {
        let mut attributes = vec![
            KeyValue::new("portcullis.dependency", self.name.to_string()),
            KeyValue::new("http.request.method", method),
            KeyValue::new("server.address", url.host_str().unwrap_or_default().to_owned()),
            KeyValue::new("url.scheme", url.scheme().to_owned()),
        ];
        attributes.extend(
            url.port_or_known_default().map(|p| KeyValue::new("server.port", i64::from(p))),
        );
        let error = match result {
            Ok(response) => {
                let status = i64::from(response.status);
                attributes.push(KeyValue::new("http.response.status_code", status));
                (response.status >= 400).then_some("http_status")
            }
            Err(error) => Some(error.as_str()),
        };
        trace::Told { name: format!("{method} {}", self.name), attributes, error }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, CallError> {
        let mut answer = request.send().await.map_err(|error| CallError::from(&error))?;
        let max = self.max_response as u64;
        if answer.content_length().is_some_and(|length| length > max) {
            return Err(CallError::TooLarge);
        }
        let status = answer.status().as_u16();
        let headers = std::mem::take(answer.headers_mut());
        let body = self.read(&mut answer).await?;
        Ok(Response::new(status, &headers, body))
    }

    async fn read(&self, answer: &mut reqwest::Response) -> Result<Bytes, CallError> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| CallError::from(&error))? {
            if whole.len().saturating_add(chunk.len()) > self.max_response {
                return Err(CallError::TooLarge);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }
}

/// What a status says of the dependency; a 4xx may be about one user.
fn judge(status: u16) -> Answer {
    match status {
        200..=299 => Answer::Useful,
        408 | 429 => Answer::Busy,
        400..=499 => Answer::Refusal,
        500..=599 => Answer::Failure("it answers with server errors"),
        // Redirects may be about one caller, too.
        _ => Answer::Busy,
    }
}

fn read_certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, BuildError> {
    let pem = std::fs::read(path)
        .map_err(|source| BuildError::CaFile { path: path.to_owned(), source })?;
    match reqwest::Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(BuildError::CaContent(path.to_owned())),
    }
}

fn read_identity(certificate: &Path, key: &Path) -> Result<reqwest::Identity, BuildError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| BuildError::CaFile { path: path.to_owned(), source })
    };
    let pem = [read(key)?, b"\n".to_vec(), read(certificate)?].concat();
    reqwest::Identity::from_pem(&pem).map_err(|_| BuildError::CaContent(certificate.to_owned()))
}

/// `Authorization: Bearer …` as a header value that no log shows.
///
/// # Errors
/// If the token holds a byte that no header value may hold.
pub fn bearer(token: &Secret<String>) -> Result<HeaderValue, CallError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
        .map_err(|_| CallError::Invalid("the credential is no header value"))?;
    value.set_sensitive(true);
    Ok(value)
}
