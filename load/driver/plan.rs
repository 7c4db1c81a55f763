//! What a run of the driver is told, as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// One run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Who is asked; a loopback address.
    pub(crate) target: SocketAddr,
    /// How it is asked.
    pub(crate) mode: Mode,
    /// Connections; each is made before the clock starts.
    pub(crate) connections: usize,
    /// Requests that may be in flight on one connection; HTTP/1.1 has one.
    #[serde(default = "one")]
    pub(crate) streams: usize,
    /// Threads of the driver.
    #[serde(default = "one")]
    pub(crate) threads: usize,
    /// Requests a second. Left out, the loop is closed: each place asks as soon as it was answered.
    pub(crate) rate: Option<f64>,
    /// Pause of a place after an answer, in a closed loop.
    #[serde(default)]
    pub(crate) think_ms: u64,
    /// How long requests are begun.
    pub(crate) seconds: f64,
    /// Most requests.
    #[serde(default = "many")]
    pub(crate) requests: u64,
    /// Longest wait for one answer.
    #[serde(default = "patience")]
    pub(crate) timeout_ms: u64,
    /// Seed of what is chosen by chance.
    #[serde(default)]
    pub(crate) seed: u64,
    /// What is asked, each as often as its weight says.
    pub(crate) asks: Vec<Ask>,
}

/// How a request reaches its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// As Envoy asks: gRPC `Check`.
    Grpc,
    /// HTTP/1.1, through Envoy or to any server.
    Http,
}

/// One kind of request, with the answer that is right.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// Shown in the report.
    pub(crate) name: String,
    /// Share, relative to the others.
    #[serde(default = "whole")]
    pub(crate) weight: f64,
    /// HTTP method.
    #[serde(default = "get")]
    pub(crate) method: String,
    /// Path and query; `{n}` is the number of the token, or of the request where there is none.
    pub(crate) path: String,
    /// File of tokens, one a line.
    pub(crate) tokens: Option<PathBuf>,
    /// Which of the tokens.
    #[serde(default)]
    pub(crate) order: Order,
    /// Further header fields.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The body; `{token}` is the token, which is then sent in no header.
    #[serde(default)]
    pub(crate) body: String,
    /// So many bytes of body in place of `body`.
    #[serde(default)]
    pub(crate) body_bytes: usize,
    /// The right answer.
    pub(crate) expect: Expect,
}

/// In which order tokens are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// One after the other, and again from the first.
    #[default]
    Cycle,
    /// One after the other; the run ends after the last.
    Once,
    /// Any.
    Random,
}

/// The right answer. What is left out is not looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// HTTP status that the client gets.
    pub(crate) status: u16,
    /// The reason: in the Check's metadata, or in an HTTP answer's body.
    pub(crate) reason: Option<String>,
    /// Whether an allow sets a request header (gRPC).
    pub(crate) sets: Option<bool>,
}

fn one() -> usize {
    1
}

fn whole() -> f64 {
    1.0
}

fn many() -> u64 {
    100_000_000
}

fn patience() -> u64 {
    5_000
}

fn get() -> String {
    "GET".to_owned()
}

/// Longest run, and most connections and places: a driver is a tool for one machine.
const MOST: (f64, usize) = (3_600.0, 4_096);

impl Plan {
    /// What is wrong with it, before anything is sent.
    pub(crate) fn check(&self) -> Result<(), String> {
        let places = self.connections.saturating_mul(self.streams);
        let say = |bad: bool, what: &str| if bad { Err(what.to_owned()) } else { Ok(()) };
        say(!self.target.ip().is_loopback(), "the target is no loopback address")?;
        say(!(self.seconds > 0.0 && self.seconds <= MOST.0), "seconds: more than 0, at most 3600")?;
        say(places == 0 || places > MOST.1, "connections and streams: 1 to 4096 places")?;
        say(self.mode == Mode::Http && self.streams != 1, "HTTP/1.1 has one stream")?;
        say(self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e6)), "rate: at most 1000000")?;
        say(self.threads == 0 || self.threads > 64, "threads: 1 to 64")?;
        say(self.asks.iter().any(|ask| ask.weight < 0.0), "a weight is negative")?;
        say(self.asks.iter().map(|ask| ask.weight).sum::<f64>() <= 0.0, "nothing is asked")
    }
}
