//! Routes that can never match, because earlier ones take all their requests.

use super::super::config::RouteConfig;
use super::super::pattern::Pattern;
use super::super::route;
use super::super::trie::Needed;
use super::Report;
use crate::model::Problem;

struct Shape<'c> {
    name: &'c str,
    pattern: Pattern,
    hosts: Vec<Box<str>>,
    methods: &'c [String],
    needed: Vec<Needed>,
}

pub(super) fn problems(routes: &[RouteConfig], found: &mut Vec<Problem>) {
    let shape = |(at, config): (usize, &'_ RouteConfig)| {
        let pattern = route::pattern(&config.matches).ok()?;
        let empty = |list: &Option<Vec<String>>| list.as_ref().is_some_and(Vec::is_empty);
        // Said already where the lists are looked at.
        if empty(&config.matches.hosts) || empty(&config.matches.methods) {
            return None;
        }
        Some((at, pattern, route::hosts(&config.matches), route::needed(&config.matches)))
    };
    let mut shapes: Vec<Shape<'_>> = Vec::with_capacity(routes.len());
    for (at, pattern, hosts, needed) in routes.iter().enumerate().filter_map(shape) {
        let Some(config) = routes.get(at) else { continue };
        let methods = config.matches.methods.as_deref().unwrap_or_default();
        let later = Shape { name: &config.name, pattern, hosts, methods, needed };
        if let Some(takers) = later.takers(&shapes) {
            let message = format!(
                "the route can never match: every such request falls under {} before it",
                takers.join(", ")
            );
            let fix = "move it up, narrow what stands before it, or remove it";
            Report { at, found }.note("match", message, fix);
        }
        shapes.push(later);
    }
}

impl Shape<'_> {
    /// The earlier routes that together take every request of this one.
    fn takers(&self, earlier: &[Shape<'_>]) -> Option<Vec<String>> {
        let wide = |e: &&Shape<'_>| {
            e.pattern.covers(&self.pattern) && e.needed.iter().all(|n| self.needed.contains(n))
        };
        let candidates: Vec<&Shape<'_>> = earlier.iter().filter(wide).collect();
        if candidates.is_empty() {
            return None;
        }
        let hosts: Vec<Option<&str>> = or_any(self.hosts.iter().map(|host| &**host));
        let methods: Vec<Option<&str>> = or_any(self.methods.iter().map(String::as_str));
        let mut names = Vec::new();
        for host in &hosts {
            for method in &methods {
                let takes = |e: &&&Shape<'_>| e.takes_host(*host) && e.takes_method(*method);
                let name = format!("`{}`", candidates.iter().find(takes)?.name);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Some(names)
    }

    fn takes_method(&self, method: Option<&str>) -> bool {
        self.methods.is_empty() || method.is_some_and(|m| self.methods.iter().any(|own| own == m))
    }

    fn takes_host(&self, host: Option<&str>) -> bool {
        let takes = |own: &str, host: &str| match own.strip_prefix('*') {
            // `.example.test` ends both `a.example.test` and `*.example.test`.
            Some(suffix) => own == host || (host.ends_with(suffix) && host != suffix),
            None => own == host,
        };
        self.hosts.is_empty() || host.is_some_and(|h| self.hosts.iter().any(|own| takes(own, h)))
    }
}

fn or_any<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Option<&'a str>> {
    let names: Vec<_> = names.map(Some).collect();
    if names.is_empty() { vec![None] } else { names }
}
