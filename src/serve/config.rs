//! `listen`, `limits`, `drain`, `envoy` and the budget of a Check.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{HumanDuration, HumanSize, Problem};

/// The system takes 107 bytes; the socket is made in a directory beside its place.
const MAX_SOCKET_PATH: usize = 90;

/// Where each door listens; each is a list, so that one door can have several addresses.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Addresses of the gRPC door that Envoy asks: `127.0.0.1:9191` or `unix:/path`.
    pub check: Vec<Address>,
    /// Addresses of health, readiness and metrics.
    pub admin: Vec<Address>,
}

impl Default for Listen {
    fn default() -> Self {
        let at = |text: &str| vec![Address::Plain(text.to_owned())];
        Self { check: at("127.0.0.1:9191"), admin: at("127.0.0.1:9190") }
    }
}

/// One address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Address {
    /// `127.0.0.1:9191`, `[::1]:9191` or `unix:/run/portcullis/check.sock`.
    Plain(String),
    /// An address with why plain TCP is fine on it.
    Explained(Explained),
}

/// An address off loopback, with the words that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// Such as `0.0.0.0:9191`.
    pub address: String,
    /// Why plain TCP is fine here: who can reach this address, and what keeps others out.
    pub plaintext: String,
}

/// An address, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// IP address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// The address as text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Explained(explained) => &explained.address,
        }
    }

    /// What to bind.
    ///
    /// # Errors
    /// If it is neither an IP address with a port nor `unix:` with an absolute path.
    pub fn endpoint(&self) -> Result<Endpoint, Problem> {
        let text = self.text();
        let fix = "write an IP address with a port (127.0.0.1:9191, [::1]:9191) or unix: with an \
                   absolute path (unix:/run/portcullis/check.sock)";
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            if path.as_os_str().len() > MAX_SOCKET_PATH {
                let text = format!("`{text}` is longer than {MAX_SOCKET_PATH} bytes");
                return Err(Problem::new("", text, "use a shorter path, such as one under /run"));
            }
            if path.is_absolute() && path.file_name().is_some() {
                return Ok(Endpoint::Unix(path));
            }
            return Err(Problem::new("", format!("`{text}` has no absolute path"), fix));
        }
        text.parse()
            .map(Endpoint::Tcp)
            .map_err(|_| Problem::new("", format!("`{text}` is not an address"), fix))
    }
}

impl Listen {
    /// Every problem that shows without binding.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut seen = Vec::new();
        for (door, list) in [("check", &self.check), ("admin", &self.admin)] {
            if list.is_empty() {
                let fix = "name at least one address, or leave the key out for the default";
                problems.push(Problem::new(format!("/{door}"), "the list is empty", fix));
            }
            for (index, address) in list.iter().enumerate() {
                let at = format!("/{door}/{index}");
                match address.endpoint() {
                    Err(problem) => problems.push(problem.under(&at)),
                    Ok(endpoint) => {
                        problems.extend(plaintext(door, address, &endpoint, &at));
                        let fixed = !matches!(&endpoint, Endpoint::Tcp(a) if a.port() == 0);
                        if fixed && seen.contains(&endpoint) {
                            let text = format!("`{endpoint}` is listed twice");
                            problems.push(Problem::new(at, text, "remove one of the two"));
                        }
                        seen.push(endpoint);
                    }
                }
            }
        }
        problems
    }
}

/// Whoever reaches the check door can ask for decisions and gets identity headers in reply.
fn plaintext(door: &str, address: &Address, endpoint: &Endpoint, at: &str) -> Option<Problem> {
    let Endpoint::Tcp(socket) = endpoint else { return None };
    match address {
        Address::Explained(words) if words.plaintext.trim().len() < 10 => Some(Problem::new(
            format!("{at}/plaintext"),
            "the reason is too short to be one",
            "say in a sentence who can reach this address and what keeps others out",
        )),
        Address::Plain(text) if door == "check" && !socket.ip().is_loopback() => {
            Some(Problem::new(
                at,
                format!(
                    "`{text}` is plain TCP off loopback: whoever reaches it can ask for decisions"
                ),
                format!(
                    "listen on loopback or a Unix socket, or write {{address: \"{text}\", plaintext: \"why that is fine here\"}}"
                ),
            ))
        }
        _ => None,
    }
}

/// Bounds of connections, streams and Checks.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections of one door; more are closed at once.
    pub max_connections: u32,
    /// Concurrent streams of one connection; HTTP/2 refuses more.
    pub max_concurrent_streams: u32,
    /// Checks being decided at one time; more are shed as unavailable.
    pub max_in_flight: u32,
    /// Largest authorization request. Keep it above Envoy's `max_request_bytes` plus 128KiB.
    pub max_check_size: HumanSize,
    /// A connection is asked to end after this time (up to a tenth earlier), so that clients
    /// spread over the replicas again.
    pub max_connection_age: HumanDuration,
    /// A connection that brought no request within this time is closed.
    pub handshake_timeout: HumanDuration,
    /// An HTTP/1 request's header must arrive within this time.
    pub header_timeout: HumanDuration,
    /// A connection is pinged when it was silent for this long.
    pub keepalive: HumanDuration,
    /// A ping unanswered for this long ends the connection.
    pub keepalive_timeout: HumanDuration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_concurrent_streams: 1024,
            max_in_flight: 4096,
            max_check_size: HumanSize(16 << 20),
            max_connection_age: HumanDuration::secs(1800),
            handshake_timeout: HumanDuration::secs(5),
            header_timeout: HumanDuration::secs(5),
            keepalive: HumanDuration::secs(30),
            keepalive_timeout: HumanDuration::secs(10),
        }
    }
}

impl Limits {
    /// Every problem of these values.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let counts = [
            ("/max_connections", self.max_connections),
            ("/max_concurrent_streams", self.max_concurrent_streams),
            ("/max_in_flight", self.max_in_flight),
        ];
        let zero = counts.into_iter().filter(|(_, value)| *value == 0);
        let mut problems: Vec<_> = zero
            .map(|(at, _)| Problem::new(at, "0 would refuse everything", "write at least 1"))
            .collect();
        if !((64 << 10)..=(1 << 30)).contains(&self.max_check_size.0) {
            let text = format!("`{}` is out of range", self.max_check_size);
            let fix = "write 64KiB to 1GiB, above the largest body that Envoy sends";
            problems.push(Problem::new("/max_check_size", text, fix));
        }
        for (at, value) in [
            ("/max_connection_age", self.max_connection_age),
            ("/handshake_timeout", self.handshake_timeout),
            ("/header_timeout", self.header_timeout),
            ("/keepalive", self.keepalive),
            ("/keepalive_timeout", self.keepalive_timeout),
        ] {
            problems.extend(positive(at, value));
        }
        problems
    }
}

fn positive(at: &str, value: HumanDuration) -> Option<Problem> {
    let range = Duration::from_millis(1)..=Duration::from_hours(30 * 24);
    (!range.contains(&value.0)).then(|| {
        Problem::new(at, format!("`{value}` is out of range"), "write 1ms to 30d, such as 5s")
    })
}

/// How the process ends.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// From the signal to the exit, whatever peers do; audit is flushed within it.
    pub grace: HumanDuration,
    /// How long new Checks are still taken after health says `NOT_SERVING`; part of `grace`.
    pub notice: HumanDuration,
}

impl Default for Drain {
    fn default() -> Self {
        Self { grace: HumanDuration::secs(10), notice: HumanDuration::millis(0) }
    }
}

impl Drain {
    /// Every problem of these values.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<_> = positive("/grace", self.grace).into_iter().collect();
        if self.notice.0 > Duration::ZERO && self.notice >= self.grace {
            let text = format!("`{}` leaves nothing of the grace time", self.notice);
            let fix = format!("write less than `grace`, which is {}", self.grace);
            problems.push(Problem::new("/notice", text, fix));
        }
        problems
    }
}

/// What the Envoys that ask are.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Envoy {
    /// The oldest Envoy that asks. From 1.37 on an unavailable answer is a 503 with
    /// `Retry-After`; 1.36 can only be told by a gRPC error, which it answers with a bare 403.
    pub min_version: EnvoyVersion,
}

/// An Envoy version: `1.37`, with or without a patch level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvoyVersion {
    minor: u16,
}

impl EnvoyVersion {
    /// Version 1.`minor`.
    #[must_use]
    pub fn new(minor: u16) -> Self {
        Self { minor }
    }

    /// Whether it knows `error_response` (from 1.37 on).
    #[must_use]
    pub fn has_error_response(self) -> bool {
        self.minor >= 37
    }
}

impl Default for EnvoyVersion {
    fn default() -> Self {
        Self::new(37)
    }
}

impl<'de> Deserialize<'de> for EnvoyVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut parts = text.split('.');
        let minor = match (parts.next(), parts.next().and_then(|minor| minor.parse().ok())) {
            (Some("1"), Some(minor)) if minor >= 36 => minor,
            _ => {
                let problem = format!("`{text}` is no Envoy version from \"1.36\" on");
                return Err(serde::de::Error::custom(problem));
            }
        };
        Ok(Self { minor })
    }
}

impl JsonSchema for EnvoyVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EnvoyVersion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^1\.(3[6-9]|[4-9][0-9]|[1-9][0-9]{2})(\.[0-9]+)?$",
            "description": "An Envoy version from 1.36 on, in quotes: \"1.37\".",
        })
    }
}

/// The time that a whole Check has.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckBudget {
    /// Time of a whole Check; a shorter `grpc-timeout` of the call goes before it. Keep it below
    /// the `timeout` of Envoy's `grpc_service`.
    pub budget: HumanDuration,
    /// What is kept of it to answer.
    pub reserve: HumanDuration,
}

impl Default for CheckBudget {
    fn default() -> Self {
        Self { budget: HumanDuration::millis(150), reserve: HumanDuration::millis(10) }
    }
}

impl CheckBudget {
    /// Every problem of these values.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<_> = positive("/budget", self.budget).into_iter().collect();
        if self.reserve >= self.budget {
            let text = format!("`{}` leaves no time to decide", self.reserve);
            let fix = format!("write less than `budget`, which is {}", self.budget);
            problems.push(Problem::new("/reserve", text, fix));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(json: serde_json::Value) -> Listen {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn s8_6_plain_tcp_off_loopback_needs_words() {
        let bare = listen(serde_json::json!({"check": ["0.0.0.0:9191", "127.0.0.1:1"]}));
        let problems = bare.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].pointer, "/check/0");
        let words = serde_json::json!({"address": "0.0.0.0:9191", "plaintext": "only the pod's own Envoy reaches it"});
        assert_eq!(listen(serde_json::json!({"check": [words]})).problems(), []);
        let short = serde_json::json!({"address": "0.0.0.0:9191", "plaintext": "ok"});
        assert_eq!(listen(serde_json::json!({"check": [short]})).problems().len(), 1);
        assert_eq!(listen(serde_json::json!({"admin": ["0.0.0.0:9190"]})).problems(), []);
    }

    #[test]
    fn addresses_that_are_none_are_refused_all_at_once() {
        let bad = ["localhost", "9191", "unix:relative", "unix:", "http://127.0.0.1:1"];
        let problems = listen(serde_json::json!({"check": bad, "admin": []})).problems();
        assert_eq!(problems.len(), bad.len() + 1, "{problems:?}");
        let long = format!("unix:/{}", "a".repeat(90));
        assert_eq!(listen(serde_json::json!({"check": [long]})).problems().len(), 1);
        let twice = listen(serde_json::json!({"check": ["unix:/a"], "admin": ["unix:/a"]}));
        assert_eq!(twice.problems()[0].pointer, "/admin/0");
    }

    #[test]
    fn s8_2_envoys_version_decides_how_unavailable_is_told() {
        let version = |text: &str| serde_json::from_value::<EnvoyVersion>(text.into());
        for (text, known) in [("1.36", false), ("1.36.4", false), ("1.37", true), ("1.40.0", true)]
        {
            assert_eq!(version(text).unwrap().has_error_response(), known, "{text}");
        }
        for bad in ["1.35", "2.0", "1", "", "v1.37", "1.x"] {
            assert!(version(bad).is_err(), "{bad}");
        }
        assert!(EnvoyVersion::default().has_error_response());
    }

    #[test]
    fn the_defaults_are_sound_and_nonsense_is_not() {
        assert!(Listen::default().problems().is_empty());
        assert!(Limits::default().problems().is_empty());
        assert!(Drain::default().problems().is_empty());
        assert!(CheckBudget::default().problems().is_empty());
        let limits =
            Limits { max_in_flight: 0, keepalive: HumanDuration::millis(0), ..Limits::default() };
        assert_eq!(limits.problems().len(), 2);
        let drain = Drain { notice: HumanDuration::secs(10), ..Drain::default() };
        assert_eq!(drain.problems().len(), 1);
        let budget = CheckBudget { reserve: HumanDuration::secs(1), ..CheckBudget::default() };
        assert_eq!(budget.problems().len(), 1);
    }
}
