//! Bodies of denials: static text of ours, escaped, bounded, and without request text.

use std::fmt::Write as _;

use serde_json::json;

use crate::model::BodyForm;

/// Longest text of a policy or a description in a body, in bytes.
const MAX_TEXT: usize = 1024;

/// What a body says.
pub(super) struct Document<'a> {
    pub form: BodyForm,
    pub status: u16,
    /// The challenge's error code, where there is one.
    pub error: Option<&'static str>,
    pub reason: &'a str,
    pub description: &'a str,
    /// The policy's own text.
    pub message: Option<&'a str>,
    /// Known to be harmless.
    pub request_id: Option<&'a str>,
}

impl Document<'_> {
    /// Content type and body. gRPC callers get the text alone: Envoy makes it `grpc-message`.
    pub(super) fn render(&self) -> (Option<&'static str>, String) {
        let text = cut(self.message.unwrap_or(self.description));
        match self.form {
            BodyForm::Oauth => (Some("application/json"), self.oauth()),
            BodyForm::Message => {
                let status = http::StatusCode::from_u16(self.status).ok();
                let error = status.and_then(|s| s.canonical_reason()).unwrap_or("Refused");
                let body = json!({ "error": error, "message": text });
                (Some("application/json"), body.to_string())
            }
            BodyForm::Html => (Some("text/html; charset=utf-8"), self.html(text)),
            BodyForm::Grpc => (None, text.to_owned()),
        }
    }

    fn oauth(&self) -> String {
        let mut body = json!({
            "error": self.error.unwrap_or_else(|| error_of(self.status)),
            "error_description": cut(self.description),
            "reason": self.reason,
        });
        if let (Some(id), Some(body)) = (self.request_id, body.as_object_mut()) {
            body.insert("request_id".to_owned(), id.into());
        }
        body.to_string()
    }

    fn html(&self, text: &str) -> String {
        let title = title_of(self.status);
        let mut out = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>{title}</title></head><body><h1>{title}</h1><p>{}</p>",
            escaped(text)
        );
        if let Some(id) = self.request_id {
            let _ = write!(out, "<p>Request <code>{}</code></p>", escaped(id));
        }
        out.push_str("</body></html>\n");
        out
    }
}

/// The error codes of RFC 6749 and 6750 where no challenge names one.
fn error_of(status: u16) -> &'static str {
    match status {
        401 => "unauthorized",
        403 => "access_denied",
        503 => "temporarily_unavailable",
        500..=599 => "server_error",
        _ => "invalid_request",
    }
}

fn title_of(status: u16) -> &'static str {
    match status {
        401 => "Sign-in required",
        403 => "Not allowed",
        404 => "Not found",
        503 => "Temporarily unavailable",
        500..=599 => "Something went wrong",
        _ => "The request was refused",
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The inside of a quoted-string (RFC 9110, section 5.6.4), ASCII only.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}
