//! The section `user_context`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::record::KeyTemplate;
use crate::dependency::{BreakerConfig, InsecureUrl};
use crate::model::{HumanDuration, HumanSize, Secret};

/// Where the user context (`input.user`) comes from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContextConfig {
    /// Where the context comes from. Left out: `user_api` where that section is given, else
    /// `none`.
    pub source: Option<Source>,
    /// The HTTP API that knows the users.
    pub user_api: Option<UserApi>,
    /// Rego rule that makes the user of `{profile, identity, token}` (without a user API of
    /// `{identity, token}`), such as `data.acme.profile.user`; its value must be an object.
    /// Without it the profile itself is the user, or the declared claims are.
    pub mapping: Option<String>,
    /// `input.user` of callers without credential. Left out: they have none.
    pub anonymous: Option<Map<String, Value>>,
    /// How long a context serves after it was fetched.
    pub ttl: HumanDuration,
    /// How long the user API's word that it knows no such user serves.
    pub unknown_ttl: HumanDuration,
    /// How long before its end a context is fetched again in the background, by a request that
    /// brings its bearer. Left out: a fifth of `ttl`; `0s`: never.
    pub refresh_ahead: Option<HumanDuration>,
    /// Memory for profiles and for contexts made of them, together.
    pub cache: HumanSize,
    /// Key of a user's profile in the shared store, behind `store.redis.prefix`: text with
    /// `{issuer}` and `{sub}`, each perhaps with `|lower` (ASCII letters alone), such as
    /// `{issuer}:{sub}`. Values are escaped. Whose a profile is, is in its value too, and compared
    /// unfolded. Left out: a hash of issuer and subject.
    pub key: Option<String>,
}

/// Where the user context comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An HTTP API that knows the users.
    UserApi,
    /// The token's declared claims.
    Claims,
    /// There is no user context.
    None,
}

/// The HTTP API that knows the users.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserApi {
    /// What is fetched. Variables are `{sub}`, `{issuer}` and `{claim:NAME}` (a declared
    /// claim); each is encoded as one path segment.
    pub url: String,
    /// Whose credential the request carries.
    #[serde(default)]
    pub credential: Credential,
    /// The key, for `credential: api_key`.
    #[serde(default)]
    pub api_key: Option<ApiKey>,
    /// Time of a whole call. Below the Check's budget a failure is seen in time for what
    /// `on_failure` says; above it the requests that wait are unavailable until it is seen.
    #[serde(default = "timeout")]
    pub timeout: HumanDuration,
    /// Largest answer that is read.
    #[serde(default = "max_response")]
    pub max_response: HumanSize,
    /// Calls that run at once.
    #[serde(default = "max_in_flight")]
    pub max_in_flight: usize,
    /// Calls that may wait for their turn; more fail at once.
    #[serde(default = "max_waiting")]
    pub max_waiting: usize,
    /// When the API is not called for a while because it fails.
    #[serde(default)]
    pub breaker: BreakerConfig,
    /// File of PEM certificates that are trusted beside the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Plain-HTTP URLs off loopback that may be called all the same.
    #[serde(default)]
    pub insecure_urls: Vec<InsecureUrl>,
    /// How to tell whose profile an answer is. Required with `credential: api_key`; without it
    /// an answer to the caller's own bearer is taken to be about the caller.
    #[serde(default)]
    pub owner: Option<Owner>,
    /// Whether the answer depends on the token and not on the user alone (scopes, chosen
    /// roles). Then it serves only that token, and other replicas do not share it.
    #[serde(default)]
    pub per_token: bool,
    /// What happens when the API fails.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How long past its end a context may serve while the API fails, for
    /// `on_failure: stale`.
    #[serde(default)]
    pub stale_for: Option<HumanDuration>,
}

/// Whose credential a request to the user API carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Credential {
    /// The caller's own bearer token.
    #[default]
    Caller,
    /// A key of ours.
    ApiKey,
}

/// A key of ours for the user API.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Header that carries it.
    #[serde(default = "authorization")]
    pub header: String,
    /// Word before the key, such as `apikey` in `Authorization: apikey …`.
    #[serde(default)]
    pub scheme: Option<String>,
    /// The key. Better in a file.
    #[serde(default)]
    pub value: Option<Secret<String>>,
    /// File that holds the key.
    #[serde(default)]
    pub value_file: Option<PathBuf>,
}

/// A pair of values that must agree for a profile to be the caller's.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// JSON pointer to a string in the profile, such as `/user-name`.
    pub profile: String,
    /// Declared claim that it must equal.
    pub claim: String,
    /// Differences that are none.
    #[serde(default)]
    pub fold: Fold,
}

/// Which differences between two names are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// Every difference counts.
    #[default]
    None,
    /// The case of ASCII letters does not count.
    Ascii,
}

/// What happens when the user API fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The request cannot be decided: unavailable.
    #[default]
    Closed,
    /// The last good context serves for up to `stale_for` past its end, marked as stale.
    Stale,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            source: None,
            user_api: None,
            mapping: None,
            anonymous: None,
            ttl: HumanDuration::secs(30 * 60),
            unknown_ttl: HumanDuration::secs(30),
            refresh_ahead: None,
            cache: HumanSize(64 << 20),
            key: None,
        }
    }
}

impl ContextConfig {
    /// Where the context comes from, with its default filled in.
    #[must_use]
    pub fn source(&self) -> Source {
        let default = if self.user_api.is_some() { Source::UserApi } else { Source::None };
        self.source.unwrap_or(default)
    }

    /// How keys of the store are made.
    pub(super) fn keys(&self) -> Result<KeyTemplate, String> {
        self.key.as_deref().map_or_else(|| Ok(KeyTemplate::default()), KeyTemplate::parse)
    }

    /// How long before its end a context is fetched again; zero is never.
    #[must_use]
    pub fn refresh_ahead(&self) -> std::time::Duration {
        self.refresh_ahead.map_or(self.ttl.0 / 5, |ahead| ahead.0)
    }
}

fn timeout() -> HumanDuration {
    HumanDuration::secs(1)
}

fn max_response() -> HumanSize {
    HumanSize(256 << 10)
}

fn max_in_flight() -> usize {
    64
}

fn max_waiting() -> usize {
    1024
}

fn authorization() -> String {
    "authorization".to_owned()
}
