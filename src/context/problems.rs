//! What can be wrong with the section `user_context`, as far as no I/O is needed to see it.

use super::config::{ApiKey, ContextConfig, Credential, OnFailure, Owner, Source, UserApi};
use super::user_api::api_key_header;
use crate::dependency::{TemplateError, UrlTemplate};
use crate::model::{HumanSize, Problem};

/// Largest profile: it must fit into a part of the cache.
const LARGEST: HumanSize = HumanSize(512 << 10);

impl ContextConfig {
    /// Everything that is wrong with the section; pointers are relative to it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = self.source_problems();
        found.extend(self.lifetime_problems());
        if let Err(message) = self.keys() {
            let fix = "write for example `{issuer}:{sub}`, or leave it out for a hash";
            found.push(Problem::new("/key", message, fix));
        }
        if let Some(api) = &self.user_api {
            found.extend(api.problems().into_iter().map(|problem| problem.under("/user_api")));
        }
        found
    }

    /// What is wrong with the section where `issuers` of the configuration can reach it: a
    /// look-up by a key of ours must say which issuer's user is meant, or one issuer's `admin`
    /// would be another's.
    #[must_use]
    pub fn problems_among(&self, issuers: usize) -> Vec<Problem> {
        let mut found = Vec::new();
        if issuers < 2 {
            return found;
        }
        let by_key = |api: &&UserApi| api.credential != Credential::Caller;
        if let Some(api) = self.user_api.as_ref().filter(by_key)
            && !api.url.contains("{issuer}")
        {
            found.push(Problem::new(
                "/user_api/url",
                format!("`{}` does not tell the users of {issuers} issuers apart", api.url),
                "put `{issuer}` into the URL, use `credential: caller`, or configure one issuer",
            ));
        }
        if self.keys().is_ok_and(|keys| !keys.names_issuer()) {
            let key = self.key.as_deref().unwrap_or_default();
            found.push(Problem::new(
                "/key",
                format!("`{key}` does not tell the users of {issuers} issuers apart"),
                "put `{issuer}` into it, or leave it out for a hash",
            ));
        }
        found
    }

    fn source_problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        match (self.source(), &self.user_api) {
            (Source::UserApi, None) => found.push(Problem::new(
                "/source",
                "`user_api` is the source, but there is no section `user_api`",
                "give `user_api: {url: …}`, or write `source: claims`",
            )),
            (Source::Claims | Source::None, Some(_)) => found.push(Problem::new(
                "/user_api",
                "is given, but `source` says that it is not used",
                "write `source: user_api`, or leave the section out",
            )),
            _ => {}
        }
        if let Some(mapping) = &self.mapping {
            if self.source() == Source::None {
                found.push(Problem::new(
                    "/mapping",
                    format!("`{mapping}` has nothing to map: there is no source"),
                    "write `source: user_api` or `source: claims`, or leave it out",
                ));
            }
            if !mapping.starts_with("data.") {
                found.push(Problem::new(
                    "/mapping",
                    format!("`{mapping}` is no path of a rule"),
                    "write the whole path, such as `data.acme.profile.user`",
                ));
            }
        }
        if self.anonymous.as_ref().is_some_and(serde_json::Map::is_empty) {
            found.push(Problem::new(
                "/anonymous",
                "is an empty object",
                "leave it out: then anonymous callers have no `input.user`",
            ));
        }
        found
    }

    fn lifetime_problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if self.ttl.0.is_zero() {
            found.push(Problem::new("/ttl", "`0` keeps nothing", "write for example `30m`"));
        }
        if let Some(ahead) = self.refresh_ahead.filter(|ahead| *ahead >= self.ttl) {
            found.push(Problem::new(
                "/refresh_ahead",
                format!("`{ahead}` is not shorter than `ttl` ({})", self.ttl),
                "write a part of `ttl`, or leave it out for a fifth",
            ));
        }
        let largest = self.user_api.as_ref().map_or(0, |api| api.max_response.0);
        let least = largest.saturating_mul(4).max(1 << 20);
        if self.cache.0 < least {
            found.push(Problem::new(
                "/cache",
                format!("`{}` is too little to keep contexts in", self.cache),
                format!("write at least `{}`", HumanSize(least)),
            ));
        }
        found
    }
}

impl UserApi {
    fn problems(&self) -> Vec<Problem> {
        let mut found = self.url_problems();
        found.extend(self.credential_problems());
        found.extend(self.failure_problems());
        let breaker = self.breaker.problems(self.timeout);
        found.extend(breaker.into_iter().map(|problem| problem.under("/breaker")));
        if let Some(owner) = &self.owner {
            found.extend(owner.problems().into_iter().map(|problem| problem.under("/owner")));
        }
        if self.max_response > LARGEST {
            found.push(Problem::new(
                "/max_response",
                format!("`{}` is more than a profile that can be kept", self.max_response),
                format!("write at most `{LARGEST}`"),
            ));
        }
        let zeros = [
            ("/timeout", self.timeout.0.is_zero(), "`1s`"),
            ("/max_response", self.max_response.0 == 0, "`256KiB`"),
            ("/max_in_flight", self.max_in_flight == 0, "`64`"),
        ];
        for (pointer, zero, example) in zeros {
            if zero {
                let fix = format!("write for example {example}");
                found.push(Problem::new(pointer, "`0` lets no call through", fix));
            }
        }
        found
    }

    fn url_problems(&self) -> Vec<Problem> {
        let template = match UrlTemplate::parse(&self.url, &self.insecure_urls) {
            Ok(template) => template,
            Err(error) => {
                let fix = match &error {
                    TemplateError::Url(error) => error.fix(),
                    _ => "write a URL such as `https://api.example.test/users/{sub}`",
                };
                return vec![Problem::new("/url", format!("`{}` {error}", self.url), fix)];
            }
        };
        let unknown = template.variables().filter(|name| {
            !matches!(*name, "sub" | "issuer")
                && name.strip_prefix("claim:").is_none_or(str::is_empty)
        });
        unknown
            .map(|name| {
                let message = format!("`{{{name}}}` in `{}` is no known variable", self.url);
                Problem::new("/url", message, "write `{sub}`, `{issuer}` or `{claim:NAME}`")
            })
            .collect()
    }

    fn credential_problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        match (self.credential, &self.api_key) {
            (Credential::ApiKey, None) => found.push(Problem::new(
                "/api_key",
                "is missing, but `credential` is `api_key`",
                "give `api_key: {header: …, value_file: …}`",
            )),
            (Credential::Caller, Some(_)) => found.push(Problem::new(
                "/api_key",
                "is given, but `credential` is `caller`",
                "write `credential: api_key`, or leave the key out",
            )),
            (Credential::ApiKey, Some(key)) => {
                found.extend(key.problems().into_iter().map(|problem| problem.under("/api_key")));
            }
            (Credential::Caller, None) => {}
        }
        if self.credential == Credential::ApiKey && self.owner.is_none() {
            found.push(Problem::new(
                "/owner",
                "is missing: the answer to a key of ours does not say whose profile it is",
                "give `owner: {profile: /user-name, claim: preferred_username}`",
            ));
        }
        if self.credential == Credential::ApiKey && self.per_token {
            found.push(Problem::new(
                "/per_token",
                "the answer to a key of ours cannot depend on the token",
                "leave it out, or write `credential: caller`",
            ));
        }
        found
    }

    fn failure_problems(&self) -> Vec<Problem> {
        match (self.on_failure, self.stale_for) {
            (OnFailure::Stale, None) => vec![Problem::new(
                "/stale_for",
                "is missing: stale contexts need a bound",
                "write for example `stale_for: 10m`",
            )],
            (OnFailure::Stale, Some(bound)) if bound.0.is_zero() => vec![Problem::new(
                "/stale_for",
                format!("`{bound}` lets nothing serve"),
                "write for example `10m`, or `on_failure: closed`",
            )],
            (OnFailure::Closed, Some(bound)) => vec![Problem::new(
                "/stale_for",
                format!("`{bound}` has no effect while `on_failure` is `closed`"),
                "write `on_failure: stale`, or leave it out",
            )],
            _ => Vec::new(),
        }
    }
}

impl ApiKey {
    fn problems(&self) -> Vec<Problem> {
        if self.value.is_none() {
            let fix = "give `value_file`, the file that holds the key";
            return vec![Problem::new("/value", "is missing", fix)];
        }
        match api_key_header(self) {
            Ok(_) => Vec::new(),
            Err(problem) => vec![problem],
        }
    }
}

impl Owner {
    fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if !self.profile.starts_with('/') {
            found.push(Problem::new(
                "/profile",
                format!("`{}` is no JSON pointer to a member", self.profile),
                "write for example `/user-name`",
            ));
        }
        if self.claim.is_empty() {
            found.push(Problem::new("/claim", "is empty", "name a declared claim"));
        }
        found
    }
}
