//! The call to the user API, and what its answers mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::ask::Asker;
use super::config::{ApiKey, Credential, UserApi};
use super::json;
use super::profile::Answer;
use crate::dependency::{CallError, Clients, Http, HttpOptions, Response, UrlTemplate, bearer};
use crate::model::{Code, Digest, Problem, Refusal, Secret};
use crate::telemetry::Metrics;

/// Longest `Retry-After` that is passed on, in seconds.
const LONGEST_RETRY: u32 = 3600;

/// The user API of a configuration.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) asker: Asker,
    pub(super) max_response: usize,
    http: Http,
    key: Option<(HeaderName, HeaderValue)>,
}

/// What a call to the user API came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// It said something of the user.
    Answer(Answer),
    /// It refused this request: a matter of the caller's.
    Refused(Refusal),
    /// It failed.
    Failed(Failure),
}

/// A failure of the user API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) detail: &'static str,
    pub(super) retry_after: Option<u32>,
}

impl Failure {
    pub(super) const fn new(detail: &'static str) -> Self {
        Self { detail, retry_after: None }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let retry_after = failure.retry_after;
        Self { retry_after, ..Self::new(Code::UserApiUnavailable, failure.detail) }
    }
}

/// The header that carries a key of ours. Problems do not show it.
pub(super) fn api_key_header(key: &ApiKey) -> Result<(HeaderName, HeaderValue), Problem> {
    let name = HeaderName::from_bytes(key.header.to_ascii_lowercase().as_bytes());
    let framing = ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade"];
    let Some(name) = name.ok().filter(|name| !framing.contains(&name.as_str())) else {
        let message = format!("`{}` is no header that can carry a key", key.header);
        return Err(Problem::new("/header", message, "write for example `authorization`"));
    };
    let secret = key.value.as_ref().map_or("", |value| value.expose().trim());
    if secret.is_empty() {
        return Err(Problem::new("/value", "is empty", "put the key into the file"));
    }
    let text = match &key.scheme {
        Some(scheme) => format!("{scheme} {secret}"),
        None => secret.to_owned(),
    };
    let Ok(mut value) = HeaderValue::from_str(&text) else {
        let fix = "give a key and a scheme of visible ASCII characters";
        return Err(Problem::new("/value", "holds a byte that no header may hold", fix));
    };
    value.set_sensitive(true);
    Ok((name, value))
}

impl Api {
    /// Calls `api` by a client of `clients`; connects to nothing yet.
    pub(super) fn new(
        api: &UserApi,
        clients: &Clients,
        metrics: Arc<Metrics>,
        base: &Path,
    ) -> Result<Self, Vec<Problem>> {
        let template = UrlTemplate::parse(&api.url, &api.insecure_urls)
            .map_err(|error| vec![Problem::new("/url", error.to_string(), "write a URL")])?;
        let key = match (&api.api_key, api.credential) {
            (Some(key), Credential::ApiKey) => {
                Some(api_key_header(key).map_err(|problem| vec![problem.under("/api_key")])?)
            }
            _ => None,
        };
        let options = HttpOptions {
            connect_timeout: api.timeout.0.min(Duration::from_secs(2)),
            timeout: api.timeout.0,
            max_response: api.max_response.as_usize(),
            max_in_flight: api.max_in_flight,
            max_waiting: api.max_waiting,
            ca_file: api.ca_file.as_ref().map(|file| base.join(file)),
            tls: api.url.starts_with("https:"),
            breaker: api.breaker,
            propagate: true,
            ..HttpOptions::new("user_api")
        };
        let http = clients.get(&options, metrics).map_err(|error| {
            let pointer = if api.ca_file.is_some() { "/ca_file" } else { "/url" };
            vec![Problem::new(pointer, error.to_string(), "name a readable file of certificates")]
        })?;
        let max_response = options.max_response;
        Ok(Self { asker: Asker::new(api, template), max_response, http, key })
    }

    /// Whether the request carries the caller's own bearer.
    pub(super) fn asks_as_caller(&self) -> bool {
        self.key.is_none()
    }

    /// Gets `url` about `user`, with `token` or with the key of ours.
    pub(super) async fn call(&self, url: Url, user: &Digest, token: &Secret<String>) -> Call {
        let (name, value) = match &self.key {
            Some((name, value)) => (name.clone(), value.clone()),
            None => match bearer(token) {
                Ok(value) => (AUTHORIZATION, value),
                Err(_) => return Call::Refused(Code::UserRefused.into()),
            },
        };
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(name, value);
        let about = user.as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes);
        match self.http.get_about(about, url, headers).await {
            Ok(response) => self.read(&response),
            Err(error) => Call::Failed(failure_of(error)),
        }
    }

    fn read(&self, response: &Response) -> Call {
        let retry_after = response.retry_after.map(|seconds| seconds.min(LONGEST_RETRY));
        let failed = |detail| Call::Failed(Failure { detail, retry_after });
        match response.status {
            200 => self.read_profile(response),
            404 | 410 => Call::Answer(Answer::Unknown),
            401 | 403 if self.asks_as_caller() => Call::Refused(Refusal::new(
                Code::UserRefused,
                "the user API does not accept the caller's bearer",
            )),
            401 | 403 => failed("the user API does not accept our key"),
            // What one user's name or bearer alone can bring about is a denial of that user.
            400 | 409 | 413 | 414 | 422 | 431 | 451 => Call::Refused(Refusal::new(
                Code::UnknownUser,
                "the user API does not accept the question about this user",
            )),
            300..=399 => failed("the user API redirects, which is not followed"),
            429 => failed("the user API has had too many requests"),
            500..=599 => failed("the user API answered with a server error"),
            _ => failed("the user API answered with a status that says nothing of the user"),
        }
    }

    fn read_profile(&self, response: &Response) -> Call {
        if !response.is_json() {
            return Call::Failed(Failure::new("the user API's answer is not of a JSON type"));
        }
        match self.known(&response.body) {
            Ok(answer) => Call::Answer(answer),
            Err(detail) => Call::Failed(Failure::new(detail)),
        }
    }

    /// The profile in `body`, checked for its form.
    pub(super) fn known(&self, body: &[u8]) -> Result<Answer, &'static str> {
        match json::object(body) {
            Ok((text, value)) => {
                let owner = self.asker.owner_in(&value);
                Ok(Answer::Known { json: text.into(), owner })
            }
            Err(json::TextError::Broken) => Err("the user API's answer is no sound JSON"),
            Err(json::TextError::NoObject) => Err("the user API's answer is no JSON object"),
        }
    }
}

fn failure_of(error: CallError) -> Failure {
    let detail = match error {
        CallError::Shed => "too many calls to the user API are waiting",
        CallError::Open => "the user API is not called: it failed too often lately",
        CallError::Unreachable
        | CallError::NoName
        | CallError::NotListening
        | CallError::NoTls
        | CallError::SlowConnect => "the user API cannot be reached",
        CallError::Timeout => "the user API did not answer in time",
        CallError::TooLarge => "the user API's answer is too large",
        CallError::Broken => "the user API's answer broke off or is not HTTP",
        CallError::Refused(what) => what,
        CallError::Invalid(_) => "the user API's request could not be built",
    };
    Failure::new(detail)
}
