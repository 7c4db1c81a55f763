//! The call to OPA's data API, and what its answers mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::config::OpaConfig;
use crate::dependency::{self, CallError, Clients, Http, HttpOptions, Response, bearer};
use crate::model::{Code, Problem, Refusal};
use crate::telemetry::Metrics;

/// A connection on which OPA went silent is noticed within twice this time.
const PING: Duration = Duration::from_secs(1);
/// Longest `decision_id` that is passed on.
const MAX_ID: usize = 128;

/// One OPA server.
#[derive(Debug)]
pub(super) struct Server {
    http: Http,
    base: Url,
    headers: HeaderMap,
    /// Connections are had without a word of OPA: the kernel makes them, where no TLS is spoken.
    plain: bool,
}

/// What OPA answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// The rule's value, none where it is undefined; or why the policy failed on this input.
    pub(super) result: Result<Option<Value>, Code>,
    /// The revision of its bundles.
    pub(super) revision: Option<Arc<str>>,
    /// Its name for the evaluation.
    pub(super) decision_id: Option<Arc<str>>,
}

/// OPA brought no answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    /// What the Check ends with.
    pub(super) refusal: Refusal,
    /// It is OPA that failed: it cannot be reached or answers with a server error. What callers
    /// can bring about by asking much, or for much, opens no route; so silence does not, for an
    /// OPA that hangs cannot be told from one that works on what was asked.
    pub(super) own: bool,
}

impl Failure {
    /// One that is no failure of OPA.
    pub(super) fn ours(refusal: Refusal) -> Self {
        Self { refusal, own: false }
    }
}

#[derive(Deserialize, Default)]
struct Body {
    // An explicit null is a value, and not the same as none.
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    decision_id: Option<String>,
    provenance: Option<Provenance>,
}

fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Deserialize)]
struct Provenance {
    revision: Option<String>,
    #[serde(default)]
    bundles: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Fault {
    errors: Vec<Cause>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    code: String,
}

impl Server {
    /// Calls OPA by a client of `clients`; connects to nothing yet.
    pub(super) fn new(
        config: &OpaConfig,
        clients: &Clients,
        metrics: &Arc<Metrics>,
        base: &Path,
    ) -> Result<Self, Problem> {
        let plain = !config.url.starts_with("https:");
        // Shorter than a call, so that it shows which of them was too long.
        let share = if plain { config.timeout.0 / 2 } else { config.timeout.0 };
        let options = HttpOptions {
            connect_timeout: share.min(Duration::from_secs(2)),
            timeout: config.timeout.0,
            max_response: config.max_response.as_usize(),
            max_in_flight: config.max_in_flight,
            max_waiting: config.max_waiting,
            ca_file: config.ca_file.as_ref().map(|file| base.join(file)),
            tls: !plain,
            client_certificate: config
                .client_certificate
                .as_ref()
                .map(|files| (base.join(&files.certificate_file), base.join(&files.key_file))),
            unix_socket: config.socket().map(Into::into),
            http2: config.http2,
            ping: Some(PING),
            propagate: true,
            ..HttpOptions::new("opa")
        };
        let http = clients
            .get(&options, Arc::clone(metrics))
            .map_err(|error| Problem::new("", error.to_string(), "name readable PEM files"))?;
        let text = if config.socket().is_some() { "http://localhost" } else { &config.url };
        let base = Url::parse(text)
            .map_err(|error| Problem::new("/url", error.to_string(), "write a URL"))?;
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &config.token {
            let value = bearer(token)
                .map_err(|error| Problem::new("/token", error.to_string(), "give one line"))?;
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self { http, base, headers, plain })
    }

    /// The value of the rule at `path` on `input`, a JSON document; `about` is a hash of the
    /// question without its time.
    pub(super) async fn ask(&self, path: &str, input: &str, about: u64) -> Result<Answer, Failure> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["v1", "data"]).extend(path.split('/'));
        }
        url.set_query(Some("provenance=true"));
        let body = ["{\"input\":", input, "}"].concat();
        match self.http.post(url, self.headers.clone(), body.into(), about, judge).await {
            Ok(response) => read(&response).map_err(|detail| failed(detail, &response)),
            Err(error) => Err(Failure {
                refusal: Refusal::new(Code::PolicyUnavailable, detail_of(error)),
                own: self.is_own(error),
            }),
        }
    }

    fn is_own(&self, error: CallError) -> bool {
        match error {
            CallError::Open => self.http.is_gone(),
            CallError::SlowConnect => self.plain,
            CallError::Unreachable
            | CallError::NoName
            | CallError::NotListening
            | CallError::NoTls => true,
            // A policy that brings OPA down on one input breaks a connection, too.
            CallError::Broken
            | CallError::Timeout
            | CallError::Shed
            | CallError::TooLarge
            | CallError::Refused(_)
            | CallError::Invalid(_) => false,
        }
    }
}

fn failed(detail: &'static str, response: &Response) -> Failure {
    let retry_after = response.retry_after.map(|seconds| seconds.min(3600));
    let refusal = Refusal { retry_after, ..Refusal::new(Code::PolicyUnavailable, detail) };
    Failure { refusal, own: response.status >= 500 && judge(response).is_none() }
}

fn read(response: &Response) -> Result<Answer, &'static str> {
    let denial = |code| Ok(Answer { result: Err(code), revision: None, decision_id: None });
    match response.status {
        200 if !response.is_json() => Err("OPA's answer is not of a JSON type"),
        200 => body(&response.body),
        // What one input alone can bring about is a denial of that input.
        400 => denial(Code::PolicyError),
        413 => denial(Code::EvaluationLimit),
        500 if erred(&response.body) => denial(Code::PolicyError),
        401 | 403 => Err("OPA does not accept our credential"),
        300..=399 => Err("OPA redirects, which is not followed"),
        429 => Err("OPA has had too many requests"),
        500..=599 => Err("OPA answered with a server error"),
        _ => Err("OPA answered with a status that is no decision"),
    }
}

/// A policy that errs on one input is no failure of OPA, nor is one that ends too late.
fn judge(response: &Response) -> Option<dependency::Answer> {
    match response.status {
        500 if erred(&response.body) => Some(dependency::Answer::Refusal),
        500 if !fault(&response.body).errors.is_empty() => Some(dependency::Answer::Busy),
        // What stands before OPA had no answer in time.
        504 => Some(dependency::Answer::Busy),
        _ => None,
    }
}

fn fault(body: &[u8]) -> Fault {
    serde_json::from_slice(body).unwrap_or_default()
}

/// Whether a policy's own error, and nothing else, is what went wrong.
fn erred(body: &[u8]) -> bool {
    let own = ["eval_conflict_error", "eval_type_error", "eval_builtin_error"];
    let fault = fault(body);
    !fault.errors.is_empty() && fault.errors.iter().all(|cause| own.contains(&cause.code.as_str()))
}

fn body(bytes: &[u8]) -> Result<Answer, &'static str> {
    let body: Body = serde_json::from_slice(bytes).map_err(|_| "OPA's answer is no sound JSON")?;
    let fits = |id: &String| id.len() <= MAX_ID && id.bytes().all(|b| b.is_ascii_graphic());
    Ok(Answer {
        result: Ok(body.result),
        revision: body.provenance.and_then(revision),
        decision_id: body.decision_id.filter(fits).map(Into::into),
    })
}

/// The revisions of all bundles; none where one has none, because it can change unseen.
fn revision(provenance: Provenance) -> Option<Arc<str>> {
    let mut told = provenance.revision.filter(|text| !text.is_empty());
    if !provenance.bundles.is_empty() {
        let each = |(name, bundle): (&String, &Value)| {
            let revision = bundle.get("revision")?.as_str().filter(|text| !text.is_empty())?;
            Some(format!("{name}={revision}"))
        };
        told = provenance.bundles.iter().map(each).collect::<Option<Vec<_>>>().map(|r| r.join(","));
    }
    told.filter(|text| text.len() <= 1024).map(Into::into)
}

fn detail_of(error: CallError) -> &'static str {
    match error {
        CallError::Shed => "too many calls to OPA are waiting",
        CallError::Open => "OPA is not called: it failed too often lately",
        CallError::Unreachable
        | CallError::NoName
        | CallError::NotListening
        | CallError::NoTls
        | CallError::SlowConnect => "OPA cannot be reached",
        CallError::Timeout => "OPA did not answer in time",
        CallError::TooLarge => "OPA's answer is too large",
        CallError::Broken => "OPA's answer broke off or is not HTTP",
        CallError::Refused(what) => what,
        CallError::Invalid(_) => "the request to OPA could not be built",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> Response {
        let (content_type, body) = (Some("application/json".into()), body.to_owned().into());
        Response { status, content_type, fresh_for: None, retry_after: None, body }
    }

    #[test]
    fn s6_2_a_missing_result_is_undefined_and_null_is_a_value() {
        assert_eq!(read(&response(200, "{}")).unwrap().result, Ok(None));
        let null = read(&response(200, r#"{"result":null}"#)).unwrap();
        assert_eq!(null.result, Ok(Some(Value::Null)));
    }

    #[test]
    fn s3_6_what_an_input_brings_about_is_a_denial_and_all_else_a_failure() {
        let conflict = r#"{"code":"internal_error","errors":[{"code":"eval_conflict_error"}]}"#;
        assert_eq!(read(&response(500, conflict)).unwrap().result, Err(Code::PolicyError));
        assert_eq!(judge(&response(500, conflict)), Some(dependency::Answer::Refusal));
        assert_eq!(judge(&response(500, "{}")), None);
        assert_eq!(read(&response(400, "{}")).unwrap().result, Err(Code::PolicyError));
        assert_eq!(read(&response(413, "{}")).unwrap().result, Err(Code::EvaluationLimit));
        let cancelled = r#"{"code":"internal_error","errors":[{"code":"eval_cancel_error"}]}"#;
        for (status, body) in [
            (500, "{}"),
            (500, cancelled),
            (500, r#"{"errors":[]}"#),
            (200, "{\"result\":tru"),
            (200, "[]"),
            (200, ""),
            (204, ""),
            (302, ""),
            (401, "{}"),
            (403, "{}"),
            (404, "{}"),
            (429, "{}"),
            (503, "{}"),
        ] {
            assert!(read(&response(status, body)).is_err(), "{status} {body}");
        }
        let html = Response { content_type: None, ..response(200, r#"{"result":true}"#) };
        assert!(read(&html).is_err());
    }

    #[test]
    fn s6_7_the_revision_is_that_of_all_bundles_or_none() {
        let told = |body: &str| read(&response(200, body)).unwrap().revision;
        let one = r#"{"provenance":{"bundles":{"a":{"revision":"1"},"b":{"revision":"2"}}}}"#;
        assert_eq!(told(one).as_deref(), Some("a=1,b=2"));
        for none in [
            "{}",
            r#"{"provenance":{}}"#,
            r#"{"provenance":{"revision":""}}"#,
            r#"{"provenance":{"bundles":{"a":{"revision":"1"},"b":{"revision":""}}}}"#,
            r#"{"provenance":{"revision":"7","bundles":{"a":{}}}}"#,
        ] {
            assert_eq!(told(none), None, "{none}");
        }
        assert_eq!(told(r#"{"provenance":{"revision":"7"}}"#).as_deref(), Some("7"));
    }

    #[test]
    fn a_decision_id_that_is_none_is_left_out() {
        let id = |text: &str| {
            let body = serde_json::json!({"result": true, "decision_id": text}).to_string();
            read(&response(200, &body)).unwrap().decision_id
        };
        assert_eq!(id("4ca636c1-55e4").as_deref(), Some("4ca636c1-55e4"));
        assert_eq!(id("a b"), None);
        assert_eq!(id(&"x".repeat(129)), None);
    }
}
