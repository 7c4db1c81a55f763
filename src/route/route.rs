//! One route, ready to be asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attributes::Attributes;
use super::config::{Access, ActionConfig, Forwarded, MatchConfig, RouteConfig, Spelling};
use super::pattern::{Pattern, Template};
use super::strip::Removals;
use super::trie::{Needed, Place};
use crate::model::{BodyForm, Demand, Moment, Problem, Request};

/// One route: what the later stages need to know of it.
#[derive(Debug)]
pub struct Route {
    /// Its name, for metrics, audit and logs.
    pub name: Arc<str>,
    /// Who may pass.
    pub access: Access,
    /// What it asks of a token beyond its being valid.
    pub demand: Demand,
    /// `realm` of the challenge.
    pub realm: Arc<str>,
    /// The needed scopes separated by spaces, for the challenge.
    pub scope: Option<Arc<str>>,
    /// Name of the entry point that decides; none where `access` alone decides.
    pub policy: Option<Arc<str>>,
    /// Form of the bodies of denials.
    pub errors: BodyForm,
    /// Lower-case names of headers without which an allow is a denial.
    pub require_headers: Vec<Box<str>>,
    /// Until then everybody passes while the policy engine fails.
    pub open_until: Option<Moment>,
    pub(super) hosts: Vec<Box<str>>,
    pub(super) pattern: Pattern,
    pub(super) methods: Vec<Box<str>>,
    pub(super) needed: Vec<Needed>,
    pub(super) resource: Option<Template>,
    pub(super) action: Action,
    pub(super) attributes: Attributes,
    pub(super) removals: Removals,
    pub(super) accepts_encoded_slash: bool,
    pub(super) accepts_semicolon: bool,
}

/// What is to be done, by method.
#[derive(Debug)]
pub(super) enum Action {
    Unsaid,
    One(Template),
    ByMethod(BTreeMap<Box<str>, Template>),
}

impl Action {
    /// The template for `method`.
    pub(super) fn of(&self, method: &str) -> Option<&Template> {
        match self {
            Self::Unsaid => None,
            Self::One(template) => Some(template),
            Self::ByMethod(templates) => templates.get(method),
        }
    }
}

/// The pattern that `matches` asks for; the error is a pointer below `match` and what is wrong.
pub(super) fn pattern(matches: &MatchConfig) -> Result<Pattern, (&'static str, String)> {
    match (&matches.path, &matches.path_prefix) {
        (None, None) => Ok(Pattern::everything()),
        (Some(path), None) => Pattern::template(path).map_err(|error| ("path", error)),
        (None, Some(prefix)) => Pattern::prefix(prefix).map_err(|error| ("path_prefix", error)),
        (Some(_), Some(_)) => Err(("path_prefix", "`path` is there too".to_owned())),
    }
}

/// Headers and extensions that a request must have; extensions first, because they are Envoy's.
pub(super) fn needed(matches: &MatchConfig) -> Vec<Needed> {
    let need = |place, name: &str, value: &str| Needed {
        place,
        name: if place == Place::Header { name.to_ascii_lowercase() } else { name.to_owned() }
            .into(),
        value: value.into(),
    };
    let extensions = &matches.context_extensions;
    let extensions = extensions.iter().map(|(name, value)| need(Place::Extension, name, value));
    let headers = matches.headers.iter().map(|(name, value)| need(Place::Header, name, value));
    extensions.chain(headers).collect()
}

/// Configured host names in their one spelling.
pub(super) fn hosts(matches: &MatchConfig) -> Vec<Box<str>> {
    let lower = |host: &String| host.to_ascii_lowercase().into();
    matches.hosts.iter().flatten().map(lower).collect()
}

/// The headers' names in lower case.
pub(super) fn lower(names: &[String]) -> Vec<Box<str>> {
    names.iter().map(|name| name.to_ascii_lowercase().into()).collect()
}

impl Route {
    /// Builds the route at index `at`, which was validated before.
    pub(super) fn build(at: usize, config: &RouteConfig) -> Result<Arc<Self>, Vec<Problem>> {
        let broken = |pointer: &str, error: String| {
            vec![Problem::new(format!("/{at}/{pointer}"), error, "see the problems of the routes")]
        };
        let pattern = pattern(&config.matches)
            .map_err(|(pointer, error)| broken(&format!("match/{pointer}"), error))?;
        let template =
            |text: &String| Template::parse(text, &pattern).map_err(|e| broken("resource", e));
        let action = match &config.action {
            None => Action::Unsaid,
            Some(ActionConfig::One(text)) => Action::One(template(text)?),
            Some(ActionConfig::ByMethod(texts)) => {
                let entry = |(method, text): (&String, _)| {
                    Ok::<_, Vec<Problem>>((method.as_str().into(), template(text)?))
                };
                Action::ByMethod(texts.iter().map(entry).collect::<Result<_, _>>()?)
            }
        };
        let resource = config.resource.as_ref().map(template).transpose()?;
        let attributes =
            Attributes::build(config, &pattern).map_err(|e| broken("attributes", e))?;
        let forwards = |what| config.forward_credentials.contains(&what);
        let scopes = config.scopes.join(" ");
        Ok(Arc::new(Self {
            name: config.name.as_str().into(),
            access: config.access,
            demand: Demand {
                issuers: config.issuers.iter().map(|name| name.as_str().into()).collect(),
                audiences: config.audiences.iter().map(|name| name.as_str().into()).collect(),
                scopes: config.scopes.iter().map(|name| name.as_str().into()).collect(),
            },
            realm: config.realm.as_deref().unwrap_or(&config.name).into(),
            scope: (!scopes.is_empty()).then(|| scopes.into()),
            policy: config.policy.as_deref().map(Into::into),
            errors: config.errors,
            require_headers: lower(&config.require_headers),
            open_until: config.open_while_opa_fails.as_ref().map(|open| open.until),
            hosts: hosts(&config.matches),
            methods: config.matches.methods.iter().flatten().map(|m| m.as_str().into()).collect(),
            needed: needed(&config.matches),
            resource,
            action,
            attributes,
            removals: Removals::build(
                &lower(&config.keep_headers),
                &config.credential_cookies,
                [Forwarded::Authorization, Forwarded::Cookie, Forwarded::AccessToken].map(forwards),
            ),
            accepts_encoded_slash: config.accept_spellings.contains(&Spelling::EncodedSlash),
            accepts_semicolon: config.accept_spellings.contains(&Spelling::Semicolon),
            pattern,
        }))
    }

    /// Whether method, headers and extensions fit; host and path are the index's.
    pub(super) fn accepts(&self, request: &Request) -> bool {
        (self.methods.is_empty() || self.methods.iter().any(|m| **m == *request.method))
            && self.needed.iter().all(|needed| needed.holds(request))
    }
}
