//! [`Outcome`] → `CheckResponse`, totally.
//!
//! Only `status.code` decides in Envoy: unset is an allow, and zero allows whatever else is
//! there. So the three kinds of answer have one constructor each, at the end of this file, and
//! nothing else makes a `CheckResponse`.

use envoy_types::pb::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction,
};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{
    CheckResponse, DeniedHttpResponse, OkHttpResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::{BoolValue, Struct};
use envoy_types::pb::google::rpc;

use super::super::config::EnvoyVersion;
use super::super::gate::Facts;
use super::body::{self, Document};
use super::metadata;
use crate::model::{Allow, BodyForm, Challenge, Decision, Deny, Outcome, Unavailable};

/// Response header of every answer that rests on stale or open ground.
const MARK: &str = "x-authz-degraded";

/// What goes back to Envoy.
#[derive(Debug)]
pub(crate) enum Answer {
    /// gRPC OK with this message.
    Check(Box<CheckResponse>),
    /// gRPC UNAVAILABLE: the only error that Envoy 1.36 knows.
    Error,
}

/// The answer for an outcome, to an Envoy of at least `version`.
pub(crate) fn render(outcome: &Outcome, facts: &Facts, version: EnvoyVersion) -> Answer {
    let metadata = |reason, decision| metadata::of(reason, decision, facts);
    let message = match outcome {
        Outcome::Allow(allow) => {
            let metadata = metadata(&allow.reason, allow.decision.as_deref());
            respond(Kind::Ok(ok(allow, facts)), metadata)
        }
        Outcome::Deny(deny) => {
            let metadata = metadata(&deny.reason, deny.decision.as_deref());
            respond(denied(deny, facts), metadata)
        }
        Outcome::Unavailable(_) if !version.has_error_response() => return Answer::Error,
        Outcome::Unavailable(answer) => {
            let metadata = metadata(&answer.reason, None);
            respond(unavailable(answer, facts), metadata)
        }
    };
    Answer::Check(Box::new(message))
}

fn ok(allow: &Allow, facts: &Facts) -> OkHttpResponse {
    let decision = allow.decision.as_deref();
    let mark = mark(facts);
    let theirs = appended(decision, mark.as_slice());
    let set = decision.map_or(&[][..], |decision| &decision.headers);
    let is_set = |name: &str| set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    OkHttpResponse {
        headers: set.iter().map(|(name, value)| overwrite(name, value)).collect(),
        // Envoy removes after it sets, so a name in both would be lost.
        headers_to_remove: own(allow.removals().filter(|name| !is_set(name))),
        response_headers_to_add: mark.into_iter().chain(theirs).collect(),
        query_parameters_to_remove: own(allow.strip.query.iter().map(|name| &**name)),
        ..OkHttpResponse::default()
    }
}

/// What tells the client that the answer rests on stale or open ground.
fn mark(facts: &Facts) -> Option<HeaderValueOption> {
    facts.record.mark().map(|mark| plain(MARK, mark))
}

fn own<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}

fn denied(deny: &Deny, facts: &Facts) -> Kind {
    let status = if (400..=599).contains(&deny.status) { deny.status } else { 403 };
    let status = if deny.body == BodyForm::Grpc { grpc_mappable(status) } else { status };
    let text = deny.decision.as_deref().and_then(|decision| decision.message.as_deref());
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
    headers.extend(mark(facts));
    if let Some(challenge) = &deny.challenge {
        headers.push(plain("www-authenticate", &www_authenticate(challenge, &deny.description)));
    }
    finish(headers, deny.decision.as_deref(), &document, Kind::Denied)
}

fn unavailable(answer: &Unavailable, facts: &Facts) -> Kind {
    let document = Document {
        form: answer.body,
        status: 503,
        error: None,
        reason: answer.reason.as_str(),
        description: "The request could not be decided; try again later.",
        message: None,
        request_id: facts.record.request_id.as_deref(),
    };
    let headers = vec![plain("retry-after", &answer.retry_after.to_string())];
    finish(headers, None, &document, Kind::Error)
}

fn finish(
    mut headers: Vec<HeaderValueOption>,
    decision: Option<&Decision>,
    document: &Document<'_>,
    kind: fn(Failure, DeniedHttpResponse) -> Kind,
) -> Kind {
    headers.push(plain("cache-control", "no-store"));
    let (content_type, body) = document.render();
    if let Some(content_type) = content_type {
        headers.push(plain("content-type", content_type));
        headers.push(plain("x-content-type-options", "nosniff"));
    }
    headers.extend(appended(decision, &headers));
    let status = Some(HttpStatus { code: i32::from(document.status) });
    let failure = Failure::of(document.status);
    kind(failure, DeniedHttpResponse { status, headers, body })
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

/// A header that replaces the client's, on every Envoy version: old ones read `append` only,
/// newer ones `append_action`.
fn overwrite(name: &str, value: &str) -> HeaderValueOption {
    #[expect(deprecated, reason = "Envoy up to 1.36 reads nothing else")]
    HeaderValueOption {
        append: Some(BoolValue { value: false }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..plain(name, value)
    }
}

/// A header with neither action set: Envoy appends it to a response and adds it, also more than
/// once, to a denial.
fn plain(name: &str, value: &str) -> HeaderValueOption {
    let header =
        HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Vec::new() };
    HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }
}

/// The decision's response headers, except names that are there already.
fn appended(decision: Option<&Decision>, there: &[HeaderValueOption]) -> Vec<HeaderValueOption> {
    let names = || there.iter().filter_map(|option| option.header.as_ref());
    let is_there = |name: &str| names().any(|header| header.key.eq_ignore_ascii_case(name));
    let headers = decision.map_or(&[][..], |decision| &decision.response_headers);
    let new = headers.iter().filter(|(name, _)| !is_there(name));
    new.map(|(name, value)| plain(name, value)).collect()
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
enum Kind {
    Ok(OkHttpResponse),
    Denied(Failure, DeniedHttpResponse),
    Error(Failure, DeniedHttpResponse),
}

fn respond(kind: Kind, metadata: Struct) -> CheckResponse {
    let (code, response) = match kind {
        Kind::Ok(ok) => (tonic::Code::Ok, HttpResponse::OkResponse(ok)),
        Kind::Denied(Failure(code), denied) => (code, HttpResponse::DeniedResponse(denied)),
        Kind::Error(Failure(code), error) => (code, HttpResponse::ErrorResponse(error)),
    };
    CheckResponse {
        status: Some(rpc::Status { code: code as i32, ..rpc::Status::default() }),
        dynamic_metadata: Some(metadata),
        http_response: Some(response),
    }
}

#[cfg(test)]
mod tests;
