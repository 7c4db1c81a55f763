//! Sections `issuers` and `tokens`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::dependency::{BreakerConfig, InsecureUrl};
use crate::model::{HumanDuration, HumanSize};

/// One issuer of access tokens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// Name that routes, metrics and logs use.
    pub name: String,
    /// The tokens' `iss`, exactly.
    pub issuer: String,
    /// One of these must be in the token's `aud`; or `any`, which needs `audiences_any_reason`.
    pub audiences: Audiences,
    /// Why a token for any audience is acceptable.
    pub audiences_any_reason: Option<String>,
    /// Where the issuer's public keys come from.
    pub keys: KeysConfig,
    /// Signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, `EdDSA`.
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<String>,
    /// Clients whose tokens are accepted, by `client_id`, else `azp`, else `appid`. Left out,
    /// every client's.
    pub clients: Option<Vec<String>>,
    /// Claims that become `input.token` where a token has them.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Claims that a token must have beside `iss`, `sub`, `aud` and `exp`.
    #[serde(default)]
    pub required_claims: Vec<String>,
    /// How far the issuer's clock may differ from ours, for `exp`, `nbf` and `iat`; at most `5m`.
    #[serde(default = "default_leeway")]
    pub leeway: HumanDuration,
    /// Whether readiness waits for this issuer's keys.
    #[serde(default = "default_true")]
    pub required: bool,
}

/// Audiences that an issuer's tokens may be for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Audiences {
    /// The word `any`.
    Any(AnyAudience),
    /// One of these.
    List(Vec<String>),
}

/// The word `any`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnyAudience {
    /// Tokens for any audience are accepted.
    Any,
}

/// Where an issuer's keys come from: exactly one of `discovery`, `jwks_uri` and `file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeysConfig {
    /// Read `jwks_uri` from `<issuer>/.well-known/openid-configuration`.
    #[serde(default)]
    pub discovery: bool,
    /// URL of the key set (JWKS, RFC 7517).
    pub jwks_uri: Option<String>,
    /// File with the key set, relative to this file. It is read at start.
    pub file: Option<PathBuf>,
    /// Hosts, beside the issuer's own, that discovery's `jwks_uri` may be on.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// URLs that may be called over plain http although they are not on loopback.
    #[serde(default)]
    pub insecure_urls: Vec<InsecureUrl>,
    /// File of PEM certificates that are trusted beside the system's, for fetching keys.
    pub ca_file: Option<PathBuf>,
    /// Time for one answer.
    #[serde(default = "default_timeout")]
    pub timeout: HumanDuration,
    /// When keys are not fetched for a while because fetching fails.
    #[serde(default)]
    pub breaker: BreakerConfig,
    /// Largest answer.
    #[serde(default = "default_max_response")]
    pub max_response: HumanSize,
    /// How long keys are fresh where the answer has no `Cache-Control` on it.
    #[serde(default = "default_refresh")]
    pub refresh: HumanDuration,
    /// Keys are not fetched again sooner, whatever `Cache-Control` says; at least `1s`.
    #[serde(default = "default_refresh_min")]
    pub refresh_min: HumanDuration,
    /// Keys are fetched again at the latest after this time, whatever `Cache-Control` says.
    #[serde(default = "default_refresh_max")]
    pub refresh_max: HumanDuration,
    /// Tokens with an unknown key cause at most one fetch in this time; at least `1s`.
    #[serde(default = "default_cooldown")]
    pub cooldown: HumanDuration,
    /// How long after the last good fetch keys still serve while fetching fails; at most `24h`.
    /// `0s`: only as long as they are fresh.
    #[serde(default = "default_last_good_for")]
    pub last_good_for: HumanDuration,
}

impl Default for KeysConfig {
    fn default() -> Self {
        Self {
            discovery: false,
            jwks_uri: None,
            file: None,
            allowed_hosts: Vec::new(),
            insecure_urls: Vec::new(),
            ca_file: None,
            timeout: default_timeout(),
            breaker: BreakerConfig::default(),
            max_response: default_max_response(),
            refresh: default_refresh(),
            refresh_min: default_refresh_min(),
            refresh_max: default_refresh_max(),
            cooldown: default_cooldown(),
            last_good_for: default_last_good_for(),
        }
    }
}

/// Limits and caches of tokens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokensConfig {
    /// Size of the cache of verified tokens.
    pub cache: HumanSize,
    /// How long a verified token is not verified again; never past its `exp`.
    pub cache_ttl: HumanDuration,
    /// Size of the cache of rejected tokens.
    pub rejection_cache: HumanSize,
    /// How long a rejected token is not looked at again.
    pub rejection_ttl: HumanDuration,
    /// Largest token.
    pub max_size: HumanSize,
}

impl Default for TokensConfig {
    fn default() -> Self {
        Self {
            cache: HumanSize(32 << 20),
            cache_ttl: HumanDuration::secs(300),
            rejection_cache: HumanSize(4 << 20),
            rejection_ttl: HumanDuration::secs(30),
            max_size: HumanSize(16 << 10),
        }
    }
}

fn default_algorithms() -> Vec<String> {
    vec!["RS256".to_owned()]
}

fn default_leeway() -> HumanDuration {
    HumanDuration::secs(60)
}

fn default_true() -> bool {
    true
}

fn default_timeout() -> HumanDuration {
    HumanDuration::secs(5)
}

fn default_max_response() -> HumanSize {
    HumanSize(1 << 20)
}

fn default_refresh() -> HumanDuration {
    HumanDuration::secs(600)
}

fn default_refresh_min() -> HumanDuration {
    HumanDuration::secs(30)
}

fn default_refresh_max() -> HumanDuration {
    HumanDuration::secs(3600)
}

fn default_cooldown() -> HumanDuration {
    HumanDuration::secs(30)
}

fn default_last_good_for() -> HumanDuration {
    HumanDuration::secs(24 * 3600)
}
