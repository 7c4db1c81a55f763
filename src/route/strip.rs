//! What an allow removes from the request before the backend sees it.

use std::collections::HashSet;
use std::sync::Arc;

use super::credential::is_bearer;
use super::query::{ambiguous, decode_name};
use super::table::Matched;
use super::trie::header;
use crate::model::{Header, Refusal, Request, Strip};

/// Headers that tell a backend another target, host or method than the one that was decided;
/// removed on every allow unless the route keeps them. What Envoy writes itself
/// (`x-forwarded-for`, `-proto`, `-client-cert`) is not among them.
pub(super) const MISLEADING: [&str; 11] = [
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-uri",
    "x-forwarded-method",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

const ACCESS_TOKEN: &str = "access_token";

/// A route's removals, prepared.
#[derive(Debug)]
pub(super) struct Removals {
    misleading: Vec<Box<str>>,
    cookies: Vec<Box<str>>,
    /// By whether `authorization` and `cookie` are removed too.
    headers: [[Arc<[Box<str>]>; 2]; 2],
    forward_authorization: bool,
    forward_cookie: bool,
    forward_access_token: bool,
}

impl Removals {
    /// `forward`: `authorization`, `cookie`, `access_token`.
    pub(super) fn build(keep: &[Box<str>], cookies: &[String], forward: [bool; 3]) -> Self {
        let [forward_authorization, forward_cookie, forward_access_token] = forward;
        let kept = |name: &&&str| !keep.iter().any(|k| **k == ***name);
        let misleading: Vec<Box<str>> =
            MISLEADING.iter().filter(kept).map(|name| Box::from(*name)).collect();
        let with = |more: &[&str]| -> Arc<[Box<str>]> {
            // A credential for a proxy is none that a route verifies.
            let names = more.iter().chain(["proxy-authorization"].iter());
            misleading.iter().cloned().chain(names.map(|name| Box::from(*name))).collect()
        };
        Self {
            headers: [
                [with(&[]), with(&["cookie"])],
                [with(&["authorization"]), with(&["authorization", "cookie"])],
            ],
            misleading,
            cookies: cookies.iter().map(|name| name.as_str().into()).collect(),
            forward_authorization,
            forward_cookie,
            forward_access_token,
        }
    }

    fn spellings(&self, request: &Request) -> Vec<Box<str>> {
        let misleading = |field: &Header<'_>| {
            let name = field.name;
            let same = |known: &str| {
                let dashed = name.iter().map(|b| if *b == b'_' { b'-' } else { *b });
                known.len() == name.len() && known.bytes().eq(dashed)
            };
            name.contains(&b'_') && self.misleading.iter().any(|known| same(known))
        };
        let fields = request.headers.fields().filter(misleading);
        fields.map(|field| field.name().into()).collect()
    }

    fn has_credential_cookie(&self, request: &Request) -> bool {
        if self.cookies.is_empty() {
            return false;
        }
        // Both ways in which repeated `cookie` headers are joined.
        let Some(value) = header(request, "cookie") else { return false };
        value.split(|b| *b == b';' || *b == b',').any(|pair| {
            let name = pair.split(|b| *b == b'=').next().unwrap_or_default().trim_ascii();
            self.cookies.iter().any(|cookie| cookie.as_bytes() == name)
        })
    }
}

impl Matched<'_, '_> {
    /// What an allow removes. `verified`: the bearer token of the `authorization` header was
    /// verified for this route, so the backend gets it.
    ///
    /// # Errors
    ///
    /// `ambiguous_parameter` where a query parameter must go and the query cannot be rewritten
    /// without changing more: Envoy's rewriting collapses names that occur twice.
    pub fn strip(&self, verified: bool) -> Result<Strip, Refusal> {
        let removals = &self.route.removals;
        // What was verified is the bearer token of this header, and no other scheme's credential.
        let theirs = verified && is_bearer(self.request);
        let authorization = !theirs && !removals.forward_authorization;
        let cookie = !removals.forward_cookie && removals.has_credential_cookie(self.request);
        let [keeping, dropping] = &removals.headers;
        let [with_cookie, without_cookie] = if authorization { dropping } else { keeping };
        let headers = if cookie { without_cookie } else { with_cookie };
        let query = match self.target.query {
            Some(query) if !removals.forward_access_token => access_tokens(query)?,
            _ => Vec::new(),
        };
        Ok(Strip {
            headers: Arc::clone(headers),
            spellings: removals.spellings(self.request),
            query,
        })
    }
}

fn access_tokens(query: &str) -> Result<Vec<Box<str>>, Refusal> {
    // Encoded or not, the name is no shorter than this, and hardly any query has one as long.
    let is_long = |pair: &[u8]| {
        pair.iter().position(|b| *b == b'=').unwrap_or(pair.len()) >= ACCESS_TOKEN.len()
    };
    if !query.as_bytes().split(|b| matches!(b, b'&' | b';')).any(is_long) {
        return Ok(Vec::new());
    }
    let is_token = |raw: &&str| decode_name(raw).is_some_and(|name| name == ACCESS_TOKEN);
    let names = || query.split('&').filter(|pair| !pair.is_empty()).map(name);
    let found = names().filter(is_token).count();
    // For a reader that separates at `;` there may be more.
    if query.split(['&', ';']).map(name).filter(is_token).count() > found {
        return Err(ambiguous("an access token stands behind a `;`"));
    }
    if found == 0 {
        return Ok(Vec::new());
    }
    let mut seen = HashSet::new();
    for raw in names() {
        if is_token(&raw) && raw != ACCESS_TOKEN {
            return Err(ambiguous("an access token's name is percent-encoded"));
        }
        if !seen.insert(decode_name(raw).unwrap_or(raw.into())) {
            return Err(ambiguous("a name occurs twice in a query that must be rewritten"));
        }
    }
    Ok(vec![ACCESS_TOKEN.into()])
}

fn name(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}
