//! What can be wrong with routes, all of it at once.

mod attributes;
mod matches;
mod open;
mod shadow;

use std::collections::HashMap;

pub use self::open::open_dates;

use super::config::{Access, ActionConfig, RouteConfig};
use super::pattern::{Pattern, Template};
use super::route;
use super::strip::MISLEADING;
use crate::model::Problem;

/// Collects the problems of one route.
struct Report<'a> {
    at: usize,
    found: &'a mut Vec<Problem>,
}

impl Report<'_> {
    /// Notes a problem at `place`, a pointer below the route without leading slash.
    fn note(&mut self, place: &str, message: impl Into<String>, fix: impl Into<String>) {
        self.found.push(Problem::new(format!("/{}/{place}", self.at), message, fix));
    }

    /// Notes every name that is no header name; `place` is the list.
    fn header_names(&mut self, place: &str, names: &[String]) {
        for (at, name) in names.iter().enumerate() {
            if !is_token(name) {
                let message = format!("`{name}` is no header name");
                self.note(&format!("{place}/{at}"), message, "write a name such as `x-tenant`");
            }
        }
    }
}

/// Everything wrong with the routes; pointers are relative to `/routes`.
pub(super) fn problems(routes: &[RouteConfig]) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut names: HashMap<&str, usize> = HashMap::new();
    for (at, config) in routes.iter().enumerate() {
        let mut report = Report { at, found: &mut found };
        if let Some(first) = names.get(config.name.as_str()) {
            let message = format!("the route name `{}` is taken by route {first}", config.name);
            report.note("name", message, "give each route a name of its own");
        } else {
            names.insert(&config.name, at);
        }
        one(config, &mut report);
    }
    shadow::problems(routes, &mut found);
    found
}

fn one(config: &RouteConfig, report: &mut Report<'_>) {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if !(1..=64).contains(&config.name.len()) || !config.name.bytes().all(plain) {
        let message = format!("`{}` is no name for a route", config.name);
        report.note("name", message, "use 1 to 64 letters, digits, `.`, `_` or `-`");
    }
    matches::problems(&config.matches, report);
    access(config, report);
    let pattern = match route::pattern(&config.matches) {
        Ok(pattern) => pattern,
        Err((place, error)) => {
            let text = config.matches.path.as_deref().or(config.matches.path_prefix.as_deref());
            let message = format!("`{}` is no path: {error}", text.unwrap_or_default());
            let fix = "write a template such as `/orders/{id}` or `/data/{resource}/{**rest}`, \
                       or a prefix such as `/data`";
            return report.note(&format!("match/{place}"), message, fix);
        }
    };
    templates(config, &pattern, report);
    attributes::problems(config, &pattern, report);
    removals(config, report);
    open::problems(config, report);
}

fn access(config: &RouteConfig, report: &mut Report<'_>) {
    let lists = [
        ("issuers", &config.issuers),
        ("audiences", &config.audiences),
        ("scopes", &config.scopes),
    ];
    for (name, list) in lists {
        if config.access == Access::Public && !list.is_empty() {
            let message = format!("a public route reads no credential, so `{name}` has no effect");
            report.note(name, message, "remove it, or write `access: authenticated`");
        }
        for (at, entry) in list.iter().enumerate() {
            let scope_token = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
            let fits = !entry.is_empty() && (name != "scopes" || entry.bytes().all(scope_token));
            if !fits {
                let message = format!("`{entry}` cannot be an entry of `{name}`");
                report.note(&format!("{name}/{at}"), message, "write one name, without spaces");
            }
        }
    }
    let quotable = |b: u8| (b.is_ascii_graphic() || b == b' ') && b != b'"' && b != b'\\';
    if let Some(realm) = config.realm.as_ref().filter(|r| r.is_empty() || !r.bytes().all(quotable))
    {
        let message = format!("the realm `{}` cannot stand in a header", realm.escape_debug());
        report.note("realm", message, "use printable ASCII without quotes and backslashes");
    }
    if config.policy.as_ref().is_some_and(String::is_empty) {
        let fix = "name one of `policy.entry_points`, or leave `policy` out";
        report.note("policy", "the name of the entry point is empty", fix);
    }
}

fn templates(config: &RouteConfig, pattern: &Pattern, report: &mut Report<'_>) {
    let mut check = |place: &str, text: &str| {
        if let Err(error) = Template::parse(text, pattern) {
            let fix = "write text with variables of the route's path, such as `{resource}`";
            report.note(place, format!("`{text}` cannot be filled: {error}"), fix);
        }
    };
    if let Some(text) = &config.resource {
        check("resource", text);
    }
    match &config.action {
        None => {}
        Some(ActionConfig::One(text)) => check("action", text),
        Some(ActionConfig::ByMethod(texts)) => {
            for (method, text) in texts {
                check(&format!("action/{method}"), text);
            }
            let methods = config.matches.methods.as_deref();
            let matched = |method: &String| methods.is_none_or(|all| all.contains(method));
            for method in texts.keys().filter(|method| !matched(method)) {
                let message = format!("the route never matches the method `{method}`");
                report.note(&format!("action/{method}"), message, "add it to `match.methods`");
            }
        }
    }
}

fn removals(config: &RouteConfig, report: &mut Report<'_>) {
    report.header_names("require_headers", &config.require_headers);
    report.header_names("credential_cookies", &config.credential_cookies);
    for (at, name) in config.keep_headers.iter().enumerate() {
        if !MISLEADING.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let message = format!("`{name}` is not a header that is removed");
            let fix = format!("remove the entry; it may be one of {}", MISLEADING.join(", "));
            report.note(&format!("keep_headers/{at}"), message, fix);
        }
    }
}

/// `token` of RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Why a client's header may not be read, if it may not.
fn unreadable(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let forwarded = name.starts_with("x-forwarded-") || name.starts_with("x-envoy-");
    if forwarded || MISLEADING.contains(&name.as_str()) {
        return Some("a client may have written it to look like another request");
    }
    match name.as_str() {
        "authorization" | "proxy-authorization" | "cookie" => Some("it is a credential"),
        "host" => Some("the host is read from the request itself"),
        _ => None,
    }
}
