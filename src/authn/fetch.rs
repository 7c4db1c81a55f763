//! Fetches an issuer's key set, from its URL or by OIDC discovery (`OpenID` Connect Discovery
//! 1.0, section 4).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use url::Url;

use super::config::KeysConfig;
use super::json;
use super::jwks::{self, Parsed};
use crate::dependency::{Http, HttpOptions, InsecureUrl, Response, check_url};
use crate::model::{Digest, Problem};
use crate::telemetry::Metrics;

/// Where to fetch.
enum Source {
    Jwks(Url),
    Discovery { document: Url, issuer: Box<str>, host: Box<str> },
}

/// Fetches the keys of one issuer.
pub(super) struct Fetcher {
    http: Http,
    source: Source,
    allowed_hosts: Vec<String>,
    insecure: Vec<InsecureUrl>,
}

/// What a fetch brought.
pub(super) struct Fetched {
    pub parsed: Parsed,
    /// Hash of the answer's body: an unchanged answer is not talked about again.
    pub body: Digest,
    /// What the answer says on how long it is fresh.
    pub fresh_for: Option<Duration>,
}

impl Fetcher {
    /// A fetcher for the issuer `issuer` that is configured as `name`; `None` where no URL is
    /// configured. Pointers of problems are relative to `keys`.
    pub(super) fn new(
        name: &str,
        issuer: &str,
        config: &KeysConfig,
        base: &std::path::Path,
        metrics: Arc<Metrics>,
    ) -> Result<Option<Self>, Problem> {
        let at = if config.discovery { "/discovery" } else { "/jwks_uri" };
        let check = |text: &str| {
            check_url(text, &config.insecure_urls)
                .map_err(|error| Problem::new(at, format!("`{text}` {error}"), error.fix()))
        };
        let source = match &config.jwks_uri {
            Some(url) => Source::Jwks(check(url)?),
            None if config.discovery => discovery(issuer, &check(issuer)?)?,
            None => return Ok(None),
        };
        let plain = match &source {
            Source::Jwks(url) => url.scheme() == "http",
            Source::Discovery { document, .. } => document.scheme() == "http",
        };
        let options = HttpOptions {
            timeout: config.timeout.0,
            connect_timeout: config.timeout.0,
            max_response: config.max_response.as_usize(),
            max_in_flight: 2,
            max_waiting: 2,
            breaker: config.breaker,
            ca_file: config.ca_file.as_ref().map(|path| base.join(path)),
            // Discovery by plain http may still lead to a key set by https.
            tls: !plain || config.discovery || config.ca_file.is_some(),
            ..HttpOptions::new(format!("jwks:{name}"))
        };
        let http = Http::new(&options, metrics).map_err(|error| {
            Problem::new("/ca_file", error.to_string(), "name a readable file of PEM certificates")
        })?;
        let (allowed_hosts, insecure) =
            (config.allowed_hosts.clone(), config.insecure_urls.clone());
        Ok(Some(Self { http, source, allowed_hosts, insecure }))
    }

    /// One fetch: discovery where configured, then the key set.
    ///
    /// # Errors
    /// The URL that failed, without its query, and why.
    pub(super) async fn fetch(&self) -> Result<Fetched, Arc<str>> {
        let url = match &self.source {
            Source::Jwks(url) => url.clone(),
            Source::Discovery { document, issuer, host } => {
                let answer = self.get(document).await?;
                let found = self.keys_url(&answer.body, issuer, host);
                found.map_err(|why| failure(document, why))?
            }
        };
        let answer = self.get(&url).await?;
        let parsed = jwks::parse(&answer.body).map_err(|why| failure(&url, why))?;
        if parsed.keys.is_empty() {
            return Err(failure(&url, "the key set holds no usable key"));
        }
        let body = Digest::of("jwks", &answer.body);
        Ok(Fetched { parsed, body, fresh_for: answer.fresh_for })
    }

    async fn get(&self, url: &Url) -> Result<Response, Arc<str>> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        match self.http.get(url.clone(), headers).await {
            Ok(answer) if answer.status == 200 => Ok(answer),
            Ok(answer) => Err(failure(url, &format!("it answers with status {}", answer.status))),
            Err(error) => Err(failure(url, error.as_str())),
        }
    }

    /// `jwks_uri` of a discovery document that is the issuer's own, on the issuer's host or a
    /// listed one.
    fn keys_url(&self, body: &[u8], issuer: &str, host: &str) -> Result<Url, &'static str> {
        let document =
            json::object(body).ok_or("the discovery document is not a strict JSON object")?;
        let text = |name| document.get(name).and_then(Value::as_str);
        if text("issuer") != Some(issuer) {
            return Err("the discovery document is another issuer's");
        }
        let url = text("jwks_uri").ok_or("the discovery document has no jwks_uri")?;
        let url = check_url(url, &self.insecure).map_err(|_| "jwks_uri may not be called")?;
        let theirs = url.host_str().unwrap_or_default();
        let allowed = |listed: &String| listed.eq_ignore_ascii_case(theirs);
        if theirs != host && !self.allowed_hosts.iter().any(allowed) {
            return Err("jwks_uri is on a host that is neither the issuer's nor allowed");
        }
        Ok(url)
    }
}

/// What failed and why, for people. A query may hold what is none of theirs.
fn failure(url: &Url, why: &str) -> Arc<str> {
    let mut shown = url.clone();
    shown.set_query(None);
    format!("{shown}: {why}").into()
}

fn discovery(issuer: &str, url: &Url) -> Result<Source, Problem> {
    let document = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let document = Url::parse(&document).ok().filter(|_| url.query().is_none());
    let document = document.ok_or_else(|| {
        Problem::new(
            "/discovery",
            format!("`{issuer}` has no place for a discovery document"),
            "use `jwks_uri` instead",
        )
    })?;
    let host = url.host_str().unwrap_or_default().into();
    Ok(Source::Discovery { document, issuer: issuer.into(), host })
}
