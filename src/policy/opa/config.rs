//! Section `policy.opa`.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::dependency::{InsecureUrl, bearer, check_url};
use crate::model::{HumanDuration, HumanSize, Problem, Secret};

/// The OPA server, for `engine: opa`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpaConfig {
    /// Where it listens: `https://opa.example.test:8181`, the same with `http` on loopback, or
    /// `unix:/run/opa.sock`. A path before `/v1/data` may follow the host.
    pub url: String,
    /// Plain-HTTP URLs off loopback that may be called all the same.
    #[serde(default)]
    pub insecure_urls: Vec<InsecureUrl>,
    /// Bearer token that it asks for. Better in a file.
    #[serde(default)]
    pub token: Option<Secret<String>>,
    /// File with that token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File of PEM certificates that are trusted beside the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// What we show of ourselves where it asks for client certificates.
    #[serde(default)]
    pub client_certificate: Option<ClientCertificate>,
    /// Speak HTTP/2 from the first byte to an OPA that was started with `--h2c`, over plain TCP
    /// or a Unix socket. With `https` both sides agree on HTTP/2 by themselves (ALPN).
    #[serde(default)]
    pub http2: bool,
    /// Time of a whole call.
    #[serde(default = "timeout")]
    pub timeout: HumanDuration,
    /// Largest answer that is read.
    #[serde(default = "max_response")]
    pub max_response: HumanSize,
    /// Calls that run at once.
    #[serde(default = "max_in_flight")]
    pub max_in_flight: usize,
    /// Calls that may wait for their turn; more fail at once.
    #[serde(default = "max_waiting")]
    pub max_waiting: usize,
    /// Whether every answer depends on input, policies and data alone, and on data that come
    /// with OPA's bundles. Then a decision without `ttl` is kept too; otherwise it is not.
    #[serde(default)]
    pub pure: bool,
    /// What happens when OPA fails.
    #[serde(default)]
    pub on_failure: OnOpaFailure,
    /// How long past its end a decision may serve while OPA fails, for `on_failure: stale`. It
    /// never outlives the decision's own `ttl`, the token or the user context.
    #[serde(default)]
    pub stale_for: Option<HumanDuration>,
}

/// A certificate of ours.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// File with the PEM certificate and its chain.
    pub certificate_file: PathBuf,
    /// File with its PEM key.
    pub key_file: PathBuf,
}

/// What happens when OPA fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOpaFailure {
    /// The answer is *unavailable*.
    #[default]
    Closed,
    /// The last decision on the same input serves, marked as stale, for `stale_for` past its end.
    Stale,
}

fn timeout() -> HumanDuration {
    HumanDuration::millis(250)
}

fn max_response() -> HumanSize {
    HumanSize(1 << 20)
}

fn max_in_flight() -> usize {
    64
}

fn max_waiting() -> usize {
    256
}

impl OpaConfig {
    /// How long past its end a decision may serve; zero for `closed`.
    pub(super) fn stale_for(&self) -> Duration {
        match (self.on_failure, self.stale_for) {
            (OnOpaFailure::Stale, Some(bound)) => bound.0,
            _ => Duration::ZERO,
        }
    }

    /// The path of the Unix socket, where it is one.
    pub(super) fn socket(&self) -> Option<&str> {
        self.url.strip_prefix("unix:")
    }

    /// What is wrong with the values themselves.
    pub(in crate::policy) fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut wrong = |at: &str, message: &str, fix: &str| {
            found.push(Problem::new(at, message, fix));
        };
        match self.socket() {
            Some(path) if !path.starts_with('/') => {
                wrong("/url", "is no absolute path of a socket", "write `unix:/run/opa.sock`");
            }
            Some(_) => {}
            None => match check_url(&self.url, &self.insecure_urls) {
                Err(error) => wrong("/url", &error.to_string(), error.fix()),
                Ok(url) if url.query().is_some() => {
                    wrong("/url", "holds a query", "leave out `?` and what follows it");
                }
                Ok(_) => {}
            },
        }
        let token = self.token.as_ref().map(|token| (token.expose().trim(), bearer(token)));
        match token {
            Some(("", _)) => wrong("/token", "is empty", "put the token into the file"),
            Some((_, Err(_))) => {
                wrong("/token", "holds a byte that no header may hold", "give one line of ASCII");
            }
            _ => {}
        }
        if self.http2 && self.url.starts_with("https:") {
            wrong("/http2", "has no effect on `https`, which agrees on HTTP/2", "remove it");
        }
        if self.timeout.0.is_zero() {
            wrong("/timeout", "lets no call finish", "write for example `250ms`");
        }
        if self.max_response.0 == 0 || self.max_response.0 > 64 << 20 {
            wrong("/max_response", "is not between 1B and 64MiB", "write for example `1MiB`");
        }
        if self.max_in_flight == 0 {
            wrong("/max_in_flight", "lets no call run", "write for example `64`");
        }
        match (self.on_failure, self.stale_for) {
            (OnOpaFailure::Stale, None) => {
                wrong("/stale_for", "is missing", "say how long, for example `5m`");
            }
            (OnOpaFailure::Stale, Some(bound)) if bound.0 > Duration::from_hours(24) => {
                wrong("/stale_for", "is longer than 24h", "write `24h` or less");
            }
            (OnOpaFailure::Closed, Some(_)) => {
                wrong("/stale_for", "has no effect", "write `on_failure: stale`, or remove it");
            }
            _ => {}
        }
        found
    }
}
