//! The whole configuration: each section is its room's own type.

use schemars::JsonSchema;
use serde::Deserialize;

use super::document::Document;
use super::process::{ReloadConfig, RuntimeConfig};
use crate::audit::config::AuditConfig;
use crate::authn::{IssuerConfig, TokensConfig, issuer_problems};
use crate::check::ask::ApiConfig;
use crate::context::ContextConfig;
use crate::model::Problem;
use crate::policy::PolicyConfig;
use crate::respond::HeadersConfig;
use crate::route::{PathConfig, RouteConfig};
use crate::serve::config::{CheckBudget, Drain, Envoy, Limits, Listen};
use crate::store::StoreConfig;
use crate::telemetry::LogConfig;
use crate::telemetry::trace::TracingConfig;

/// Portcullis configuration.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses of each door.
    #[serde(default)]
    pub listen: Listen,
    /// Bounds on connections and on Checks in flight.
    #[serde(default)]
    pub limits: Limits,
    /// Time that a Check may take.
    #[serde(default)]
    pub check: CheckBudget,
    /// What happens between SIGTERM and the end.
    #[serde(default)]
    pub drain: Drain,
    /// What the Envoy that asks can do.
    #[serde(default)]
    pub envoy: Envoy,
    /// How request targets are read.
    #[serde(default)]
    pub path: PathConfig,
    /// Who issues tokens that we accept.
    #[serde(default)]
    pub issuers: Vec<IssuerConfig>,
    /// Bounds and caches of token validation.
    #[serde(default)]
    pub tokens: TokensConfig,
    /// Where the user context of an identity comes from.
    #[serde(default)]
    pub user_context: ContextConfig,
    /// Where state lies that replicas share. Left out, each process remembers for itself.
    #[serde(default)]
    pub store: StoreConfig,
    /// The policies that decide. Left out, no route may name one.
    pub policy: Option<PolicyConfig>,
    /// Request headers that we may set, and no client may.
    #[serde(default)]
    pub headers: HeadersConfig,
    /// Which rules apply to which request; the first match wins, no match is a denial.
    pub routes: Vec<RouteConfig>,
    /// What the decision API (`listen.api`) answers, and to whom.
    pub api: Option<ApiConfig>,
    /// Where the record of every Check goes.
    #[serde(default)]
    pub audit: AuditConfig,
    /// What is logged, and how.
    #[serde(default)]
    pub log: LogConfig,
    /// Where spans go, and which Checks have them.
    #[serde(default)]
    pub tracing: TracingConfig,
    /// When this configuration and what it names is taken again.
    #[serde(default)]
    pub reload: ReloadConfig,
    /// The asynchronous runtime.
    #[serde(default)]
    pub runtime: RuntimeConfig,
}

/// The sections that are read together; nothing where one has faults already, its default where
/// it was left out.
#[derive(Debug)]
pub struct Parts {
    /// `issuers`.
    pub issuers: Option<Vec<IssuerConfig>>,
    /// `user_context`.
    pub user_context: Option<ContextConfig>,
    /// `policy`, which may be left out.
    pub policy: Option<Option<PolicyConfig>>,
    /// `headers`.
    pub headers: Option<HeadersConfig>,
    /// `routes`.
    pub routes: Option<Vec<RouteConfig>>,
    /// `api`, which may be left out.
    pub api: Option<Option<ApiConfig>>,
    /// `listen`.
    pub listen: Option<Listen>,
}

/// Notes what each section of `document` says is wrong with it. Sections are looked at one by
/// one, so that a fault in one hides none in another.
pub(super) fn sections(document: &mut Document) -> Parts {
    let listen = on(document, "listen", Listen::problems);
    on(document, "limits", Limits::problems);
    on(document, "check", CheckBudget::problems);
    on(document, "drain", Drain::problems);
    on(document, "tokens", TokensConfig::problems);
    on(document, "store", StoreConfig::problems);
    on(document, "audit", AuditConfig::problems);
    on(document, "tracing", TracingConfig::problems);
    on(document, "reload", ReloadConfig::problems);
    on(document, "runtime", RuntimeConfig::problems);
    Parts {
        issuers: on(document, "issuers", |all: &Vec<IssuerConfig>| issuer_problems(all)),
        user_context: on(document, "user_context", ContextConfig::problems),
        policy: on(document, "policy", |policy: &Option<PolicyConfig>| {
            policy.as_ref().map(PolicyConfig::problems).unwrap_or_default()
        }),
        headers: on(document, "headers", HeadersConfig::problems),
        routes: on(document, "routes", |all: &Vec<RouteConfig>| crate::route::problems(all)),
        api: on(document, "api", |api: &Option<ApiConfig>| {
            api.as_ref().map(ApiConfig::problems).unwrap_or_default()
        }),
        listen,
    }
}

fn on<T: serde::de::DeserializeOwned + Default>(
    document: &mut Document,
    name: &str,
    problems: impl FnOnce(&T) -> Vec<Problem>,
) -> Option<T> {
    let section = document.section::<T>(name)?;
    let prefix = format!("/{name}");
    document.note(problems(&section).into_iter().map(|problem| problem.under(&prefix)));
    Some(section)
}
