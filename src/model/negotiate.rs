//! Which form a denial's body takes for this caller.

use super::{BodyForm, Request};

impl BodyForm {
    /// The form for `request` where `configured` is the route's: a gRPC caller gets a status, a
    /// browser (one whose `Accept` ranks `text/html` above JSON) a page, everyone else JSON.
    #[must_use]
    pub fn negotiate(configured: Self, request: &Request) -> Self {
        if request.headers.first("content-type").is_some_and(is_grpc) {
            return Self::Grpc;
        }
        let html = request.headers.first("accept").is_some_and(prefers_html);
        if html { Self::Html } else { configured }
    }
}

/// `application/grpc`, `application/grpc+proto`, …; not `application/grpc-web`.
fn is_grpc(value: &[u8]) -> bool {
    let (kind, rest) = value.split_at_checked(16).unwrap_or_default();
    kind.eq_ignore_ascii_case(b"application/grpc")
        && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Whether `Accept` (RFC 9110, 12.5.1) names `text/html` with more weight than any JSON type. A
/// wildcard is no wish for a page.
fn prefers_html(accept: &[u8]) -> bool {
    // `text/html` has a letter that what other clients send has not.
    if !accept.iter().any(|b| matches!(b, b'h' | b'H')) {
        return false;
    }
    let Ok(accept) = std::str::from_utf8(accept) else { return false };
    let (mut html, mut json) = (0.0_f32, 0.0_f32);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if kind.eq_ignore_ascii_case("text/html") {
            html = html.max(weight);
        } else if kind.eq_ignore_ascii_case("application/json")
            || kind.to_ascii_lowercase().ends_with("+json")
        {
            json = json.max(weight);
        }
    }
    html > json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Headers;

    fn form(headers: &[(&str, &str)]) -> BodyForm {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        let headers = Headers::from_pairs(headers);
        BodyForm::negotiate(BodyForm::Message, &Request { headers, ..Request::default() })
    }

    #[test]
    fn s3_4_the_body_is_negotiated() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, expected) in [
            ("*/*", BodyForm::Message),
            ("", BodyForm::Message),
            ("application/json", BodyForm::Message),
            (browser, BodyForm::Html),
            ("text/html;q=0.5, application/json", BodyForm::Message),
            ("application/problem+json;q=0.2, text/html", BodyForm::Html),
            ("text/html;q=0", BodyForm::Message),
        ] {
            assert_eq!(form(&[("accept", accept)]), expected, "{accept}");
        }
    }

    #[test]
    fn p09_a_grpc_caller_is_told_by_its_content_type() {
        for grpc in ["application/grpc", "application/grpc+proto", "Application/GRPC;x=y"] {
            let headers = [("content-type", grpc), ("accept", "text/html")];
            assert_eq!(form(&headers), BodyForm::Grpc, "{grpc}");
        }
        for other in ["application/grpc-web", "application/json", "", "application/grpcx"] {
            assert_eq!(form(&[("content-type", other)]), BodyForm::Message, "{other}");
        }
    }
}
