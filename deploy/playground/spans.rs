//! The backend's own spans, as OTLP over HTTP in JSON: enough to show where a request ends.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::Error;

/// Sends spans to one collector.
#[derive(Debug)]
pub(crate) struct Spans {
    url: String,
    client: OnceLock<reqwest::Client>,
}

/// A span under way: the caller's, gone on with.
#[derive(Debug)]
pub(crate) struct Span {
    trace: String,
    parent: String,
    begun: u128,
}

fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

impl Spans {
    /// `collector` is an address such as `127.0.0.1:4318`.
    pub(crate) fn new(collector: &str) -> Self {
        Self { url: format!("http://{collector}/v1/traces"), client: OnceLock::new() }
    }

    /// Begins a span, where the caller has one that is sampled.
    pub(crate) fn begin(headers: &HeaderMap) -> Option<Span> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let parts: Vec<&str> = text.split('-').collect();
        let [_, trace, parent, "01"] = parts.as_slice() else { return None };
        Some(Span { trace: (*trace).to_owned(), parent: (*parent).to_owned(), begun: nanos() })
    }

    /// Ends it, and sends it by itself: a playground has few.
    pub(crate) async fn end(
        &self,
        span: Span,
        service: &str,
        name: &str,
        status: u16,
    ) -> Result<(), Error> {
        let mut id = [0; 8];
        rand::fill(&mut id)?;
        let text =
            |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let span = json!({
            "traceId": span.trace, "spanId": format!("{:016x}", u64::from_be_bytes(id)),
            "parentSpanId": span.parent, "name": name, "kind": 2,
            "startTimeUnixNano": span.begun.to_string(), "endTimeUnixNano": nanos().to_string(),
            "attributes": [{
                "key": "http.response.status_code", "value": { "intValue": status.to_string() },
            }],
        });
        let body: Value = json!({ "resourceSpans": [{
            "resource": { "attributes": [text("service.name", service)] },
            "scopeSpans": [{ "scope": { "name": "playground" }, "spans": [span] }],
        }] });
        let client = self.client.get_or_init(|| {
            let plain = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
            plain.unwrap_or_default()
        });
        let post = client.post(&self.url).header(CONTENT_TYPE, "application/json");
        post.body(body.to_string()).send().await?.error_for_status()?;
        Ok(())
    }
}
