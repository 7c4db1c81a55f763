//! [`Outcome`] → `CheckResponse`, totally.
//!
//! Only `status.code` decides in Envoy: unset is an allow, and zero allows whatever else is
//! there. So the three kinds of answer have one form each, at the end of this file, and nothing else
//! writes a `CheckResponse`. Field numbers are those of `external_auth.proto` and
//! `config/core/v3/base.proto`.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::config::Envoy;
use super::super::gate::Facts;
use super::body::{self, Document};
use super::metadata;
use super::write::Writer;
use crate::model::{Allow, BodyForm, Challenge, Decision, Deny, Outcome, Reason, Unavailable};

/// Response header of every answer that rests on stale or open ground.
const MARK: &str = "x-authz-degraded";

/// What goes back to Envoy.
#[derive(Debug)]
pub(crate) enum Answer {
    /// gRPC OK with this frame, which holds a `CheckResponse`.
    Check(Bytes),
    /// gRPC UNAVAILABLE: the only error that Envoy 1.36 knows.
    Error,
}

/// Bytes that hold a usual answer.
const ROOM: usize = 2048;

/// `HeaderValueOption.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD`.
const OVERWRITE: u64 = 2;

/// The answer for an outcome, to such an Envoy.
pub(crate) fn render(outcome: &Outcome, facts: &Facts, envoy: Envoy) -> Answer {
    let frame = match outcome {
        Outcome::Allow(allow) => {
            respond(Kind::Ok(allow), &allow.reason, allow.decision.as_deref(), facts, envoy)
        }
        Outcome::Deny(deny) => {
            respond(denied(deny, facts), &deny.reason, deny.decision.as_deref(), facts, envoy)
        }
        Outcome::Unavailable(_) if !envoy.min_version.has_error_response() => return Answer::Error,
        Outcome::Unavailable(answer) => {
            respond(unavailable(answer, facts), &answer.reason, None, facts, envoy)
        }
    };
    Answer::Check(frame)
}

/// Writes an `OkHttpResponse`.
fn ok(out: &mut Writer, allow: &Allow, facts: &Facts) {
    let decision = allow.decision.as_deref();
    let set = decision.map_or(&[][..], |decision| &decision.headers);
    for (name, value) in set {
        header(out, 2, name, value, Existing::Overwritten);
    }
    let is_set = |name: &str| set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    // Envoy removes after it sets, so a name in both would be lost.
    for name in allow.removals().filter(|name| !is_set(name)) {
        out.text(5, name);
    }
    let mark = facts.record.mark();
    if let Some(mark) = mark {
        header(out, 6, MARK, mark, Existing::Kept);
    }
    for (name, value) in decision.map_or(&[][..], Decision::response_headers) {
        if mark.is_none() || !name.eq_ignore_ascii_case(MARK) {
            header(out, 6, name, value, Existing::Kept);
        }
    }
    for name in &allow.strip.query {
        out.text(8, name);
    }
}

fn denied<'a>(deny: &'a Deny, facts: &Facts) -> Kind<'a> {
    let status = if (400..=599).contains(&deny.status) { deny.status } else { 403 };
    let status = if deny.body == BodyForm::Grpc { grpc_mappable(status) } else { status };
    let text = deny.decision.as_deref().and_then(Decision::message);
    let document = Document {
        form: deny.body,
        status,
        error: deny.challenge.as_ref().and_then(|challenge| challenge.error),
        reason: deny.reason.as_str(),
        description: &deny.description,
        message: text,
        request_id: facts.record.request_id.as_deref(),
    };
    let mut headers = Vec::with_capacity(4);
    headers.extend(facts.record.mark().map(|mark| (MARK, mark.into())));
    if let Some(challenge) = &deny.challenge {
        headers.push(("www-authenticate", www_authenticate(challenge, &deny.description).into()));
    }
    let refusal = Refusal::new(headers, deny.decision.as_deref(), &document);
    Kind::Denied(Failure::of(status), refusal)
}

fn unavailable<'a>(answer: &'a Unavailable, facts: &Facts) -> Kind<'a> {
    let document = Document {
        form: answer.body,
        status: 503,
        error: None,
        reason: answer.reason.as_str(),
        description: "The request could not be decided; try again later.",
        message: None,
        request_id: facts.record.request_id.as_deref(),
    };
    let headers = vec![("retry-after", answer.retry_after.to_string().into())];
    Kind::Error(Failure::of(503), Refusal::new(headers, None, &document))
}

/// What a `DeniedHttpResponse` says.
struct Refusal<'a> {
    status: u16,
    headers: Vec<(&'a str, Cow<'a, str>)>,
    body: String,
}

impl<'a> Refusal<'a> {
    /// `headers`, those of every refusal, and the decision's, except names that are there already.
    fn new(
        mut headers: Vec<(&'a str, Cow<'a, str>)>,
        decision: Option<&'a Decision>,
        document: &Document<'_>,
    ) -> Self {
        headers.push(("cache-control", "no-store".into()));
        let (content_type, body) = document.render();
        if let Some(content_type) = content_type {
            headers.push(("content-type", content_type.into()));
            headers.push(("x-content-type-options", "nosniff".into()));
        }
        let ours = headers.len();
        for (name, value) in decision.map_or(&[][..], Decision::response_headers) {
            if !headers.iter().take(ours).any(|(ours, _)| ours.eq_ignore_ascii_case(name)) {
                headers.push((name, (&**value).into()));
            }
        }
        Self { status: document.status, headers, body }
    }

    fn write(&self, out: &mut Writer) {
        out.message(1, |status| status.number(1, u64::from(self.status)));
        for (name, value) in &self.headers {
            header(out, 2, name, value, Existing::Kept);
        }
        out.text(3, &self.body);
    }
}

/// Envoy maps these to a gRPC status of the same meaning; the others it would make *unknown*,
/// *unimplemented* or *internal*.
fn grpc_mappable(status: u16) -> u16 {
    match status {
        401 | 403 | 429 | 500..=599 => status,
        _ => 403,
    }
}

/// RFC 6750, section 3. The description is ours and within the characters allowed there.
pub(in crate::serve) fn www_authenticate(challenge: &Challenge, description: &str) -> String {
    let mut out = format!("Bearer realm=\"{}\"", body::quoted(&challenge.realm));
    for (name, value) in [
        ("error", challenge.error),
        ("error_description", challenge.error.map(|_| description)),
        ("scope", challenge.scope.as_deref()),
    ] {
        if let Some(value) = value {
            out.push_str(", ");
            out.push_str(name);
            out.push_str("=\"");
            out.push_str(&body::quoted(value));
            out.push('"');
        }
    }
    out
}

/// What becomes of a header that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// Replaced, on every Envoy version: old ones read `append` only, newer ones `append_action`.
    Overwritten,
    /// Neither action is set: Envoy appends to a response, and adds, also more than once, to a
    /// denial.
    Kept,
}

/// Writes a `HeaderValueOption`.
fn header(out: &mut Writer, field: u8, name: &str, value: &str, existing: Existing) {
    out.message(field, |option| {
        option.message(1, |header| {
            header.text(1, name);
            header.text(2, value);
        });
        if existing == Existing::Overwritten {
            // A `BoolValue` that is there and false.
            option.message(2, |_| ());
            option.number(3, OVERWRITE);
        }
    });
}

/// A gRPC status code other than OK.
#[derive(Debug, Clone, Copy)]
struct Failure(tonic::Code);

impl Failure {
    fn of(status: u16) -> Self {
        Self(match status {
            400 => tonic::Code::InvalidArgument,
            401 => tonic::Code::Unauthenticated,
            429 => tonic::Code::ResourceExhausted,
            500 => tonic::Code::Internal,
            503 => tonic::Code::Unavailable,
            _ => tonic::Code::PermissionDenied,
        })
    }
}

/// The three answers that exist. A denial and an error carry a code that is not OK by its type.
enum Kind<'a> {
    Ok(&'a Allow),
    Denied(Failure, Refusal<'a>),
    Error(Failure, Refusal<'a>),
}

/// Writes a `CheckResponse`; its `status` is always there.
fn respond(
    kind: Kind<'_>,
    reason: &Reason,
    decision: Option<&Decision>,
    facts: &Facts,
    envoy: Envoy,
) -> Bytes {
    let told = envoy.metadata;
    let (code, members) = match &kind {
        Kind::Ok(_) => (tonic::Code::Ok, told),
        Kind::Denied(Failure(code), _) | Kind::Error(Failure(code), _) => {
            (*code, told.of_refusal())
        }
    };
    let mut out = Writer::new(ROOM);
    out.message(1, |status| status.number(1, code as u64));
    match kind {
        Kind::Ok(allow) => out.message(3, |out| ok(out, allow, facts)),
        Kind::Denied(_, refusal) => out.message(2, |out| refusal.write(out)),
        Kind::Error(_, refusal) => out.message(5, |out| refusal.write(out)),
    }
    out.message(4, |out| metadata::write(out, reason, decision, facts, members));
    out.finish()
}

#[cfg(test)]
mod tests;
