//! The section `tracing`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{HumanDuration, Problem, Secret};

/// Where spans go and which Checks have them. `OTEL_…` variables set the keys that name them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TracingConfig {
    /// Whether Checks are traced, where `endpoint` is given (`OTEL_SDK_DISABLED` inverts it).
    pub enabled: bool,
    /// The collector's URL, such as `http://127.0.0.1:4317`; left out, nothing is traced. To one
    /// for `http/protobuf` that has no path, `/v1/traces` is added
    /// (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`).
    pub endpoint: Option<String>,
    /// How the collector is spoken to (`OTEL_EXPORTER_OTLP_PROTOCOL`).
    pub protocol: Protocol,
    /// Header fields for the collector: `name=value,…`, percent-encoded
    /// (`OTEL_EXPORTER_OTLP_HEADERS`). Better in a file.
    pub headers: Option<Secret<String>>,
    /// File that holds `headers`.
    pub headers_file: Option<PathBuf>,
    /// File of PEM certificates that are trusted beside the system's, for an `https` collector
    /// (`OTEL_EXPORTER_OTLP_CERTIFICATE`).
    pub ca_file: Option<PathBuf>,
    /// Time that the collector has to take a batch; a batch that it does not take is lost
    /// (`OTEL_EXPORTER_OTLP_TIMEOUT`).
    pub timeout: HumanDuration,
    /// The resource's `service.name` (`OTEL_SERVICE_NAME`).
    pub service_name: String,
    /// Further attributes of the resource (`OTEL_RESOURCE_ATTRIBUTES`).
    pub resource_attributes: BTreeMap<String, String>,
    /// Which Checks are sampled at their start (`OTEL_TRACES_SAMPLER`).
    pub sampler: Sampler,
    /// Part of the Checks, 0 to 1, that the samplers by ratio take
    /// (`OTEL_TRACES_SAMPLER_ARG`).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ratio: f64,
    /// Checks that are traced at their end though they were not sampled at their start.
    pub always: AlwaysConfig,
    /// Forms in which a caller's span is read, in this order, and is told to the user API and to
    /// OPA (`OTEL_PROPAGATORS`).
    pub propagation: Vec<Propagation>,
    /// Whether the trace that the client's own headers name is gone on with where the Check call
    /// itself names none; so also for callers of the decision API. Clients can then have
    /// themselves sampled.
    pub trust_client: bool,
    /// Spans that wait to be sent; further ones are lost, and counted (`OTEL_BSP_MAX_QUEUE_SIZE`).
    #[schemars(range(min = 64, max = 1_000_000))]
    pub queue: u32,
    /// Spans of one message (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
    #[schemars(range(min = 1, max = 8192))]
    pub batch: u32,
    /// Longest time that a span waits for its batch (`OTEL_BSP_SCHEDULE_DELAY`).
    pub delay: HumanDuration,
}

impl Default for TracingConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: None,
            protocol: Protocol::Grpc,
            headers: None,
            headers_file: None,
            ca_file: None,
            timeout: HumanDuration::secs(10),
            service_name: "portcullis".to_owned(),
            resource_attributes: BTreeMap::new(),
            sampler: Sampler::ParentbasedAlwaysOn,
            ratio: 1.0,
            always: AlwaysConfig::default(),
            propagation: vec![Propagation::W3c],
            trust_client: false,
            queue: 2048,
            batch: 512,
            delay: HumanDuration::secs(5),
        }
    }
}

/// How the collector is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// OTLP over gRPC.
    #[serde(rename = "grpc")]
    Grpc,
    /// OTLP over HTTP.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

/// Which Checks are sampled at their start; the names are OpenTelemetry's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// All.
    AlwaysOn,
    /// None.
    AlwaysOff,
    /// `ratio` of all, by the trace id.
    Traceidratio,
    /// As the caller decided; all that come without a trace.
    ParentbasedAlwaysOn,
    /// As the caller decided; none that come without a trace.
    ParentbasedAlwaysOff,
    /// As the caller decided; `ratio` of those that come without a trace.
    ParentbasedTraceidratio,
}

/// Form in which a span is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Propagation {
    /// W3C Trace Context: `traceparent` and `tracestate`.
    W3c,
    /// B3, of one or of several headers; written as one.
    B3,
}

/// Checks that are traced at their end though they were not sampled at their start. Spans of
/// others than Portcullis are missing from such a trace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlwaysConfig {
    /// Denials.
    pub denials: bool,
    /// Checks that could not be decided.
    pub errors: bool,
    /// Checks that take at least so long.
    pub slow: Option<HumanDuration>,
}

impl TracingConfig {
    /// The collector's URL, where Checks are traced at all.
    #[must_use]
    pub fn collector(&self) -> Option<&str> {
        self.endpoint.as_deref().filter(|_| self.enabled)
    }

    /// The collector's URL, whole.
    pub(super) fn url(&self) -> Option<String> {
        let url = self.collector()?;
        let bare = url.parse::<Uri>().is_ok_and(|uri| matches!(uri.path(), "" | "/"));
        let http = self.protocol == Protocol::HttpProtobuf;
        let whole = || format!("{}/v1/traces", url.trim_end_matches('/'));
        Some(if http && bare { whole() } else { url.to_owned() })
    }

    /// Everything that is wrong with the section; pointers are relative to it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut wrong = |at: &str, message: String, fix: &str| {
            found.push(Problem::new(at, message, fix));
        };
        if let Some(text) = &self.endpoint {
            match text.parse::<Uri>() {
                Ok(uri) if is_collector(&uri) => {
                    if self.headers.is_some() && !is_private(&uri) {
                        let message = format!("`{text}` would get `headers` in clear");
                        wrong("/endpoint", message, "use https, or leave `headers` out");
                    }
                }
                _ => {
                    let message = format!("`{text}` is no URL of a collector");
                    wrong("/endpoint", message, "write for example `http://127.0.0.1:4317`");
                }
            }
        }
        if self.headers.is_some() && self.header_pairs().is_none() {
            let fix = "write `name=value`, several with commas between them, percent-encoded";
            wrong("/headers", "these are no header fields".to_owned(), fix);
        }
        if !(0.0..=1.0).contains(&self.ratio) {
            wrong("/ratio", format!("`{}` is out of range", self.ratio), "write 0 to 1");
        }
        if self.service_name.is_empty() {
            wrong("/service_name", "it is empty".to_owned(), "write for example `portcullis`");
        }
        if self.propagation.is_empty() {
            wrong("/propagation", "it is empty".to_owned(), "write `[w3c]`");
        }
        if self.batch == 0 || self.batch > self.queue {
            let message = format!("`{}` is no part of `queue` ({})", self.batch, self.queue);
            wrong("/batch", message, "write 1 to `queue`");
        }
        let longest = Duration::from_mins(1);
        for (at, value) in [("/timeout", self.timeout), ("/delay", self.delay)] {
            if value.0.is_zero() || value.0 > longest {
                wrong(at, format!("`{value}` is out of range"), "write 1ms to 1m");
            }
        }
        found
    }

    /// `headers`, taken apart; nothing where they are malformed.
    pub(super) fn header_pairs(&self) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let text = self.headers.as_ref().map(|text| text.expose().as_str()).unwrap_or_default();
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=')?;
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                let name = name.trim().to_ascii_lowercase();
                let mut value = HeaderValue::from_str(&value).ok()?;
                value.set_sensitive(true);
                Some((HeaderName::try_from(name).ok()?, value))
            })
            .collect()
    }
}

fn is_collector(uri: &Uri) -> bool {
    let user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && !user
}

/// Whether nobody on the way can read what is sent there.
fn is_private(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    uri.scheme_str() == Some("https") || loopback || host == "localhost"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told_at_once_and_shows_no_secret() {
        let config = TracingConfig {
            endpoint: Some("http://collector.test:4317".to_owned()),
            headers: Some(Secret::new("authorization=Bearer%20marker".to_owned())),
            ratio: 1.5,
            service_name: String::new(),
            propagation: Vec::new(),
            batch: 4096,
            timeout: HumanDuration::secs(0),
            ..TracingConfig::default()
        };
        let found = config.problems();
        let at: Vec<_> = found.iter().map(|problem| problem.pointer.as_str()).collect();
        let all = ["/endpoint", "/ratio", "/service_name", "/propagation", "/batch", "/timeout"];
        assert_eq!(at, all);
        assert!(!format!("{found:?} {config:?}").contains("marker"));
        let pairs = config.header_pairs().unwrap();
        assert_eq!(pairs[0].1, "Bearer marker");
        for url in ["x", "ftp://a", "http://", "http://u:p@a"] {
            let endpoint = Some(url.to_owned());
            let config = TracingConfig { endpoint, ..TracingConfig::default() };
            assert_eq!(config.problems().len(), 1, "{url}");
        }
        assert_eq!(TracingConfig::default().problems().len(), 0);
    }
}
