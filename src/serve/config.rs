//! `listen`, `limits`, `drain`, `envoy` and the budget of a Check.

mod listen;
mod metadata;
mod tls;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::listen::{Address, Endpoint, Explained, Listen, Secure};
pub use self::metadata::{Member, Members};
pub use self::tls::{TlsConfig, TlsVersion};
use crate::model::{HumanDuration, HumanSize, Problem};

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
            max_check_size: HumanSize(1 << 20),
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

/// What the Envoys that ask are, and what they are told.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Envoy {
    /// The oldest Envoy that asks. From 1.37 on an unavailable answer is a 503 with
    /// `Retry-After`; 1.36 can only be told by a gRPC error, which it answers with its `status_on_error`.
    pub min_version: EnvoyVersion,
    /// What the dynamic metadata of an allow say of its Check, beside what the policy says and
    /// the mark of an answer on stale or open ground. Left out: `summary`, one text with all that
    /// is known. Each costs Envoy some 1.3 us, about 1 % of a request. A refusal says `check_id`,
    /// `decision_id`, `engine_decision_id` and `reason` in any case.
    pub metadata: Members,
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
