//! What two sections say that does not go together.

use std::collections::HashSet;

use super::root::{Config, Parts};
use super::suggest::{all, nearest};
use crate::authn::IssuerConfig;
use crate::check::ask::ApiConfig;
use crate::model::Problem;
use crate::policy::{PolicyConfig, PolicyEngine};
use crate::respond::HeadersConfig;
use crate::route::{Access, RouteConfig};

/// Everything that is wrong between the sections, as far as they could be read.
pub(super) fn problems(parts: &Parts) -> Vec<Problem> {
    let mut found = Vec::new();
    for (index, route) in parts.routes.iter().flatten().enumerate() {
        let at = format!("/routes/{index}");
        let of_route = [
            parts.issuers.as_ref().map(|issuers| of_issuers(route, issuers)),
            parts.policy.as_ref().map(|policy| of_policy(route, policy.as_ref())),
            parts.headers.as_ref().map(|headers| of_headers(route, headers)),
        ];
        found.extend(of_route.into_iter().flatten().flatten().map(|p| p.under(&at)));
    }
    if let (Some(context), Some(issuers)) = (&parts.user_context, &parts.issuers) {
        let among = context.problems_among(issuers.len());
        found.extend(among.into_iter().map(|problem| problem.under("/user_context")));
    }
    if let Some(api) = &parts.api {
        let bound = parts.listen.as_ref().map(|listen| !listen.api.is_empty());
        found.extend(of_api(api.as_ref(), bound, parts));
    }
    found
}

/// The decision API's door and section go together, and name what is there.
fn of_api(api: Option<&ApiConfig>, bound: Option<bool>, parts: &Parts) -> Vec<Problem> {
    let Some(api) = api else {
        let fix = "add the section `api`, or remove `listen.api`";
        let missing = Problem::new("/listen/api", "nothing says what this door answers", fix);
        return if bound == Some(true) { vec![missing] } else { Vec::new() };
    };
    let mut found = Vec::new();
    if bound == Some(false) {
        let fix = "add an address, for example `listen: { api: [\"127.0.0.1:9192\"] }`";
        found.push(Problem::new("/api", "the decision API listens nowhere", fix));
    }
    if let Some(policy) = &parts.policy {
        let known: Vec<&str> = entry_points(policy.as_ref()).map(|(name, _)| name).collect();
        found.extend(unknown("/api/policy", "policy entry point", &api.policy, &known));
    }
    if let Some(issuers) = &parts.issuers {
        let known: Vec<&str> = issuers.iter().map(|issuer| issuer.name.as_str()).collect();
        let named = api.issuers.iter().enumerate();
        found.extend(named.filter_map(|(index, name)| {
            unknown(&format!("/api/issuers/{index}"), "issuer", name, &known)
        }));
        if known.is_empty() && api.callers.iter().all(|caller| caller.key_hash.is_none()) {
            let fix = "add an issuer under `issuers`, or a caller with a `key_hash`";
            found.push(Problem::new("/api/callers", "nobody can ask: there is no credential", fix));
        }
    }
    found
}

fn of_issuers(route: &RouteConfig, issuers: &[IssuerConfig]) -> Vec<Problem> {
    let known: Vec<&str> = issuers.iter().map(|issuer| issuer.name.as_str()).collect();
    if route.access != Access::Public && known.is_empty() {
        let message = "this route reads credentials, and no issuer is configured";
        let fix = "add an issuer under `issuers`, or write `access: public`";
        return vec![Problem::new("/access", message, fix)];
    }
    let named = route.issuers.iter().enumerate();
    named
        .filter_map(|(i, name)| unknown(&format!("/issuers/{i}"), "issuer", name, &known))
        .collect()
}

fn of_policy(route: &RouteConfig, policy: Option<&PolicyConfig>) -> Vec<Problem> {
    let known: Vec<&str> = entry_points(policy).map(|(name, _)| name).collect();
    let named = route.policy.iter();
    let unknown = named.filter_map(|name| unknown("/policy", "policy entry point", name, &known));
    let embedded = policy.is_none_or(|policy| policy.engine == PolicyEngine::Embedded);
    let idle = (embedded && route.open_while_opa_fails.is_some()).then(|| {
        let message = "has no effect: there is no OPA server";
        Problem::new("/open_while_opa_fails", message, "remove it, or write `engine: opa`")
    });
    unknown.chain(idle).collect()
}

/// A route cannot require a header that no decision may set.
fn of_headers(route: &RouteConfig, headers: &HeadersConfig) -> Vec<Problem> {
    let managed = &headers.managed;
    let required = route.require_headers.iter().enumerate();
    let strangers =
        required.filter(|(_, name)| !managed.iter().any(|known| known.eq_ignore_ascii_case(name)));
    let problem = |(i, name): (usize, &String)| {
        let message = format!("`{name}` is no managed header, so that no decision can set it");
        let fix = if managed.is_empty() {
            "add it to `headers.managed`".to_owned()
        } else {
            format!("add it to `headers.managed`, which has {}", all(managed))
        };
        Problem::new(format!("/require_headers/{i}"), message, fix)
    };
    strangers.map(problem).collect()
}

/// What is odd, but works.
pub(super) fn notes(config: &Config) -> Vec<Problem> {
    let used: HashSet<&str> = config
        .routes
        .iter()
        .filter_map(|route| route.policy.as_deref())
        .chain(config.api.iter().map(|api| api.policy.as_str()))
        .collect();
    let mut found: Vec<Problem> = entry_points(config.policy.as_ref())
        .filter(|(name, _)| !used.contains(name))
        .map(|(name, index)| {
            let at = format!("/policy/entry_points/{index}/name");
            let message = format!("no route asks the entry point `{name}`");
            Problem::new(at, message, "name it as `policy` of a route, or remove it")
        })
        .collect();
    found.extend(of_open(config));
    if let Some(api) = &config.user_context.user_api
        && api.timeout > config.check.budget
    {
        let message = format!(
            "the first Check of a user waits {} at most (`check.budget`), while the load goes on \
             for up to {}",
            config.check.budget, api.timeout
        );
        found.push(Problem::new("/user_context/user_api/timeout", message, ""));
    }
    found
}

/// What an open route gives away, and what its openness does not reach.
fn of_open(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    let opa = config.policy.as_ref().and_then(|policy| policy.opa.as_ref());
    for (index, route) in config.routes.iter().enumerate() {
        let Some(open) = &route.open_while_opa_fails else { continue };
        let at = format!("/routes/{index}/open_while_opa_fails");
        let (name, until, reason) = (&route.name, open.until, open.reason.trim());
        let message = format!("until {until} `{name}` passes everybody while OPA fails ({reason})");
        found.push(Problem::new(at.clone(), message, ""));
        if !route.require_headers.is_empty() {
            let message = "no open answer has the headers that the route requires: it stays closed";
            let fix = "remove `require_headers` or this section";
            found.push(Problem::new(at.clone(), message, fix));
        }
        if opa.is_some_and(|opa| opa.timeout >= config.check.budget) {
            let message = "OPA's `timeout` is as long as `check.budget`: where no \
                           connection is had, the Check's time ends first: *unavailable*";
            found.push(Problem::new(at, message, "write a shorter `policy.opa.timeout`"));
        }
    }
    found
}

/// Names of the entry points with the index of each.
fn entry_points(policy: Option<&PolicyConfig>) -> impl Iterator<Item = (&str, usize)> {
    let points = policy.into_iter().flat_map(|policy| &policy.entry_points);
    points.enumerate().map(|(index, point)| (point.name.as_str(), index))
}

fn unknown(at: &str, what: &str, name: &str, known: &[&str]) -> Option<Problem> {
    if known.contains(&name) {
        return None;
    }
    let fix = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "none is configured; add one of that name".to_owned(),
        None => format!("write one of {}", all(known)),
    };
    Some(Problem::new(at, format!("there is no {what} `{name}`"), fix))
}
