//! An answer, with what our adapters read of its headers.

use std::time::Duration;

use ::http::{HeaderMap, header};
use bytes::Bytes;

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The media type without parameters, lower-case; `None` if absent or given twice.
    pub content_type: Option<Box<str>>,
    /// What `Cache-Control` says on how long the answer is fresh, less `Age` (RFC 9111, section
    /// 4.2): zero for `no-store` and `no-cache`, `None` where it says nothing.
    pub fresh_for: Option<Duration>,
    /// `Retry-After` in seconds (RFC 9110, section 10.2.3), whichever form it came in.
    pub retry_after: Option<u32>,
    /// The body, as it came.
    pub body: Bytes,
}

impl Response {
    pub(super) fn new(status: u16, headers: &HeaderMap, body: Bytes) -> Self {
        Self {
            status,
            content_type: content_type(headers),
            fresh_for: fresh_for(headers),
            retry_after: retry_after(headers),
            body,
        }
    }

    /// Whether the media type is `application/json` or ends in `+json`.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let json = |kind: &str| kind == "application/json" || kind.ends_with("+json");
        self.content_type.as_deref().is_some_and(json)
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn content_type(headers: &HeaderMap) -> Option<Box<str>> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (first, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let kind = first.split(';').next().unwrap_or_default().trim();
    Some(kind.to_ascii_lowercase().into())
}

/// A whole number of seconds; one that is too large for its type is the largest.
fn seconds(text: &str) -> Option<u64> {
    let text = text.trim().trim_matches('"');
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn fresh_for(headers: &HeaderMap) -> Option<Duration> {
    let mut max_age = None;
    for value in headers.get_all(header::CACHE_CONTROL) {
        for directive in value.to_str().unwrap_or_default().split(',') {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            let name = name.trim();
            if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
                return Some(Duration::ZERO);
            }
            if name.eq_ignore_ascii_case("max-age") {
                max_age = max_age.or(seconds(value));
            }
        }
    }
    let age = text(headers, header::AGE).and_then(seconds).unwrap_or(0);
    max_age.map(|max_age| Duration::from_secs(max_age.saturating_sub(age)))
}

fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let value = text(headers, header::RETRY_AFTER)?;
    if let Some(seconds) = seconds(value) {
        return Some(u32::try_from(seconds).unwrap_or(u32::MAX));
    }
    // A date is read against the answer's own date, so that no clock of ours takes part.
    let at = |text| chrono::DateTime::parse_from_rfc2822(text).ok();
    let left = at(value)? - at(text(headers, header::DATE)?)?;
    u32::try_from(left.num_seconds().max(0)).ok()
}
