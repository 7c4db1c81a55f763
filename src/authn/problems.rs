//! What can be wrong with the sections `issuers` and `tokens`, as far as no file or network is
//! needed to see it.

use std::collections::HashMap;
use std::time::Duration;

use super::algorithm;
use super::config::{Audiences, IssuerConfig, KeysConfig, TokensConfig};
use crate::dependency::check_url;
use crate::model::{HumanDuration, HumanSize, Problem};

const MAX_LEEWAY: HumanDuration = HumanDuration::secs(300);
const MAX_LAST_GOOD: HumanDuration = HumanDuration::secs(24 * 3600);
const MIN_INTERVAL: HumanDuration = HumanDuration::secs(1);
const MAX_TOKEN: HumanSize = HumanSize(64 << 10);

/// Problems of the section `issuers`, with pointers relative to it.
#[must_use]
pub fn issuer_problems(issuers: &[IssuerConfig]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut names = HashMap::new();
    let mut urls = HashMap::new();
    for (index, config) in issuers.iter().enumerate() {
        let here = format!("/{index}");
        problems.extend(config.problems().into_iter().map(|problem| problem.under(&here)));
        if let Some(first) = names.insert(config.name.as_str(), index) {
            problems.push(Problem::new(
                format!("{here}/name"),
                format!("issuer name `{}` is also that of issuer {first}", config.name),
                "give every issuer a name of its own",
            ));
        }
        if let Some(first) = urls.insert(config.issuer.as_str(), index) {
            problems.push(Problem::new(
                format!("{here}/issuer"),
                format!("`iss` `{}` is also that of issuer {first}", config.issuer),
                "describe every issuer once, with all its audiences and algorithms",
            ));
        }
    }
    problems
}

/// Collects problems of one object.
struct Found(Vec<Problem>);

impl Found {
    fn add(&mut self, at: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Problem::new(at, message, fix));
    }

    /// Every entry of a list is filled and there once.
    fn list(&mut self, at: &str, what: &str, entries: &[String]) {
        for (index, entry) in entries.iter().enumerate() {
            let here = format!("{at}/{index}");
            if entry.trim().is_empty() {
                self.add(here, format!("{what} is empty"), "write it, or leave the entry out");
            } else if entries.iter().take(index).any(|earlier| earlier == entry) {
                self.add(here, format!("{what} `{entry}` is there twice"), "leave one out");
            }
        }
    }

    fn at_least(&mut self, at: &str, value: HumanDuration, least: HumanDuration) {
        if value < least {
            self.add(at, format!("`{value}` is too short"), format!("write `{least}` or more"));
        }
    }

    fn at_most(&mut self, at: &str, value: HumanDuration, most: HumanDuration) {
        if value > most {
            self.add(at, format!("`{value}` is too long"), format!("write `{most}` or less"));
        }
    }
}

impl IssuerConfig {
    /// What is wrong with this issuer alone.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Found(Vec::new());
        let name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if !(1..=64).contains(&self.name.len()) || !self.name.bytes().all(name_byte) {
            found.add(
                "/name",
                format!("`{}` is no issuer name", self.name),
                "use 1 to 64 letters, digits, `-`, `_` and `.`",
            );
        }
        if self.issuer.is_empty() {
            found.add("/issuer", "the issuer is empty", "write the exact `iss` of its tokens");
        }
        self.audience_problems(&mut found);
        self.algorithm_problems(&mut found);
        if let Some(clients) = &self.clients {
            if clients.is_empty() {
                found.add(
                    "/clients",
                    "the list of clients is empty, so no token could pass",
                    "name the clients, or leave `clients` out to accept every client",
                );
            }
            found.list("/clients", "a client", clients);
        }
        found.list("/claims", "a claim", &self.claims);
        found.list("/required_claims", "a claim", &self.required_claims);
        found.at_most("/leeway", self.leeway, MAX_LEEWAY);
        let keys = self.keys.problems(&self.issuer).into_iter();
        found.0.extend(keys.map(|problem| problem.under("/keys")));
        found.0
    }

    fn audience_problems(&self, found: &mut Found) {
        let reason = self.audiences_any_reason.as_deref().map(str::trim);
        match (&self.audiences, reason) {
            (Audiences::Any(_), None | Some("")) => found.add(
                "/audiences",
                "`any` accepts tokens that were issued for other services",
                "list the audiences, or say in `audiences_any_reason` why any is fine",
            ),
            (Audiences::List(_), Some(_)) => found.add(
                "/audiences_any_reason",
                "a reason is given but `audiences` is a list",
                "leave it out, or write `audiences: any`",
            ),
            (Audiences::List(list), None) if list.is_empty() => found.add(
                "/audiences",
                "the list of audiences is empty, so no token could pass",
                "name the audience that the issuer writes into tokens for your service",
            ),
            (Audiences::List(list), None) => found.list("/audiences", "an audience", list),
            (Audiences::Any(_), Some(_)) => {}
        }
    }

    fn algorithm_problems(&self, found: &mut Found) {
        if self.algorithms.is_empty() {
            found.add("/algorithms", "the list of algorithms is empty", "write `[RS256]`");
        }
        for (index, name) in self.algorithms.iter().enumerate() {
            if algorithm::by_name(name).is_some() {
                continue;
            }
            let why = if name.eq_ignore_ascii_case("none") {
                "accepts tokens without a signature".to_owned()
            } else if name.to_ascii_uppercase().starts_with("HS") {
                "needs a shared secret, and public keys are none".to_owned()
            } else {
                "is not a known algorithm".to_owned()
            };
            found.add(
                format!("/algorithms/{index}"),
                format!("`{name}` {why}"),
                format!("use one of {}", algorithm::NAMES.join(", ")),
            );
        }
        found.list("/algorithms", "an algorithm", &self.algorithms);
    }
}

impl KeysConfig {
    fn problems(&self, issuer: &str) -> Vec<Problem> {
        let mut found = Found(Vec::new());
        let sources = [self.discovery, self.jwks_uri.is_some(), self.file.is_some()];
        if sources.iter().filter(|given| **given).count() != 1 {
            found.add(
                "",
                "the keys need exactly one source",
                "write one of `discovery: true`, `jwks_uri: https://…` and `file: keys.json`",
            );
        }
        for (index, entry) in self.insecure_urls.iter().enumerate() {
            if !entry.insecure || entry.reason.trim().is_empty() {
                found.add(
                    format!("/insecure_urls/{index}"),
                    format!("`{}` is listed without `insecure: true` and a reason", entry.url),
                    "write `insecure: true` and in `reason` why plain http is fine here",
                );
            }
        }
        let urls = [
            ("/jwks_uri", self.jwks_uri.as_deref()),
            ("/discovery", self.discovery.then_some(issuer)),
        ];
        for (at, url) in urls {
            if let Some((url, error)) =
                url.and_then(|url| Some((url, check_url(url, &self.insecure_urls).err()?)))
            {
                found.add(at, format!("`{url}` {error}"), error.fix());
            }
        }
        found.list("/allowed_hosts", "a host", &self.allowed_hosts);
        self.time_problems(&mut found);
        let breaker = self.breaker.problems(self.timeout).into_iter();
        found.0.extend(breaker.map(|problem| problem.under("/breaker")));
        found.0
    }

    fn time_problems(&self, found: &mut Found) {
        found.at_least("/timeout", self.timeout, HumanDuration::millis(1));
        found.at_least("/cooldown", self.cooldown, MIN_INTERVAL);
        found.at_least("/refresh_min", self.refresh_min, MIN_INTERVAL);
        found.at_least("/refresh_max", self.refresh_max, self.refresh_min);
        found.at_most("/last_good_for", self.last_good_for, MAX_LAST_GOOD);
        if self.max_response.0 == 0 {
            found.add("/max_response", "`0B` lets no answer through", "write `1MiB`");
        }
    }
}

impl TokensConfig {
    /// What is wrong with the section.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Found(Vec::new());
        if self.max_size.0 == 0 || self.max_size > MAX_TOKEN {
            found.add(
                "/max_size",
                format!("`{}` is no useful limit of a token's size", self.max_size),
                format!("write a size up to `{MAX_TOKEN}`"),
            );
        }
        found.at_most("/cache_ttl", self.cache_ttl, HumanDuration(Duration::from_hours(24)));
        found.at_most("/rejection_ttl", self.rejection_ttl, HumanDuration::secs(300));
        found.0
    }
}
