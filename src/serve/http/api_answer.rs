//! What the decision API answers with.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::check::ask::{Desk, Told};
use crate::model::{Decision, Outcome};
use crate::serve::ext_authz::www_authenticate;
use crate::serve::gate::Facts;

/// The API's description (`OpenAPI` 3.1) before the configuration's own sets are filled in.
const DOCUMENT: &str = include_str!("openapi.json");

/// The API's description, with the actions and resources that can be asked for.
pub(super) fn document(desk: &Desk) -> String {
    let mut document: Value = serde_json::from_str(DOCUMENT).unwrap_or_default();
    let (actions, resources) = desk.vocabulary();
    let sets = [("action", Some(actions)), ("resource", resources)];
    for (member, names) in sets.into_iter().filter_map(|(at, names)| Some((at, names?))) {
        let at = format!("/components/schemas/Question/properties/{member}");
        if let Some(Value::Object(schema)) = document.pointer_mut(&at) {
            schema.insert("enum".to_owned(), json!(names));
        }
    }
    document.to_string()
}

/// An error: `{error, message}`.
pub(super) fn problem(status: StatusCode, message: &str) -> Response {
    let mut answer = (status, Json(error(status, message))).into_response();
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn error(status: StatusCode, message: &str) -> Map<String, Value> {
    let error = status.canonical_reason().unwrap_or("Refused");
    Map::from_iter([("error".to_owned(), error.into()), ("message".to_owned(), message.into())])
}

/// The answer to a call with one question; also to a call that ends before its questions.
pub(super) fn whole(outcome: &Outcome, facts: &Facts, told: Option<&Told>) -> Response {
    match told {
        Some(told) if !matches!(outcome, Outcome::Unavailable(_)) => {
            match decided(outcome, facts, told) {
                Ok(said) => fine(&said),
                Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, unwritten(&error)),
            }
        }
        _ => {
            let (status, message) = failure(outcome);
            let mut answer = problem(status, &message);
            let headers = answer.headers_mut();
            match outcome {
                Outcome::Unavailable(unavailable) => {
                    headers.insert(header::RETRY_AFTER, unavailable.retry_after.into());
                }
                Outcome::Deny(deny) => {
                    let challenge = deny.challenge.as_ref();
                    let text = challenge.map(|c| www_authenticate(c, &deny.description));
                    if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
                        headers.insert(header::WWW_AUTHENTICATE, value);
                    }
                }
                Outcome::Allow(_) => {}
            }
            answer
        }
    }
}

/// One element of a batch's answer.
pub(super) fn item(outcome: &Outcome, facts: &Facts, told: Option<&Told>) -> Box<RawValue> {
    let (status, message) = match told {
        Some(told) if !matches!(outcome, Outcome::Unavailable(_)) => {
            match decided(outcome, facts, told) {
                Ok(said) => return said,
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, unwritten(&error).to_owned()),
            }
        }
        _ => failure(outcome),
    };
    let mut members = error(status, &message);
    members.insert("status".to_owned(), status.as_u16().into());
    if let Outcome::Unavailable(unavailable) = outcome {
        members.insert("retry_after".to_owned(), unavailable.retry_after.into());
    }
    to_raw_value(&members).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A batch's answer.
pub(super) fn items(results: &[Box<RawValue>]) -> Response {
    fine(&std::collections::BTreeMap::from([("results", results)]))
}

fn fine(body: &impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// What is told of an answer. Its constraints are the policy's own text: what is lost of them would
/// read as "no limits".
#[derive(Serialize)]
struct Said<'a> {
    decision: Map<String, Value>,
    user: &'a Map<String, Value>,
    constraints: &'a RawValue,
    timestamp: String,
}

fn decided(
    outcome: &Outcome,
    facts: &Facts,
    told: &Told,
) -> Result<Box<RawValue>, serde_json::Error> {
    let (allow, reason, decision) = match outcome {
        Outcome::Allow(allow) => (true, &allow.reason, allow.decision.as_deref()),
        Outcome::Deny(deny) => (false, &deny.reason, deny.decision.as_deref()),
        Outcome::Unavailable(unavailable) => (false, &unavailable.reason, None),
    };
    // Where no policy was asked, the question's own id names the denial.
    let id = decision.map_or(&*facts.record.check_id, |decision| &*decision.id);
    let mut said = Map::from_iter([
        ("allow".to_owned(), allow.into()),
        ("decision_id".to_owned(), id.into()),
        ("reason".to_owned(), reason.as_str().into()),
    ]);
    if let Some(message) = decision.and_then(Decision::message) {
        said.insert("message".to_owned(), message.into());
    }
    if crate::check::is_stale(&facts.record) {
        said.insert("stale".to_owned(), true.into());
    }
    let constraints = decision.and_then(Decision::constraints).map(|text| &**text);
    let constraints = serde_json::from_str::<&RawValue>(constraints.unwrap_or("{}"))?;
    let timestamp = told.at.rfc3339();
    to_raw_value(&Said { decision: said, user: &told.user, constraints, timestamp })
}

fn unwritten(error: &serde_json::Error) -> &'static str {
    tracing::error!(%error, "an answer of the decision API cannot be written");
    "the answer cannot be written"
}

fn failure(outcome: &Outcome) -> (StatusCode, String) {
    match outcome {
        Outcome::Unavailable(unavailable) => {
            let message = format!("It cannot be decided at present ({}).", unavailable.reason);
            (StatusCode::SERVICE_UNAVAILABLE, message)
        }
        Outcome::Deny(deny) => {
            let status = StatusCode::from_u16(deny.status).unwrap_or(StatusCode::FORBIDDEN);
            (status, deny.description.to_string())
        }
        // An allow is told of; without what is told it is none.
        Outcome::Allow(_) => (StatusCode::INTERNAL_SERVER_ERROR, "The answer is missing.".into()),
    }
}
