//! The table of routes, and the match of one request.

use std::borrow::Cow;
use std::sync::Arc;

use super::config::{PathConfig, RouteConfig};
use super::route::Route;
use super::target::{self, Target};
use super::trie::{Index, Number};
use super::{connection, host, validate};
use crate::model::{Code, Problem, Refusal, Request};

/// All routes, indexed; immutable once built.
#[derive(Debug)]
pub struct Table {
    routes: Vec<Arc<Route>>,
    index: Index,
    trust_envoy: bool,
}

/// A request with the route that it falls under.
#[derive(Debug)]
pub struct Matched<'t, 'r> {
    pub(super) route: &'t Arc<Route>,
    pub(super) request: &'r Request,
    pub(super) target: Target<'r>,
    pub(super) host: Cow<'r, str>,
}

impl Table {
    /// Builds the table.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the routes; pointers are relative to `/routes`.
    pub fn new(routes: &[RouteConfig], path: &PathConfig) -> Result<Self, Vec<Problem>> {
        let problems = validate::problems(routes);
        if !problems.is_empty() {
            return Err(problems);
        }
        let built = routes.iter().enumerate().map(|(at, route)| Route::build(at, route));
        let routes: Vec<Arc<Route>> = built.collect::<Result<_, _>>()?;
        let mut index = Index::default();
        for (number, route) in (0..).zip(&routes) {
            let needed = route.needed.first();
            if route.hosts.is_empty() {
                index.add(number, None, &route.pattern, needed);
            }
            for host in &route.hosts {
                index.add(number, Some(host), &route.pattern, needed);
            }
        }
        Ok(Self { routes, index, trust_envoy: path.trust_envoy_normalisation })
    }

    /// Every route, in file order.
    #[must_use]
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// The first route of the file that matches.
    ///
    /// # Errors
    ///
    /// `path_not_canonical`, `host_invalid` or `no_route`.
    pub fn find<'r>(&self, request: &'r Request) -> Result<Matched<'_, 'r>, Refusal> {
        let target = target::parse(&request.target, self.trust_envoy)?;
        let host = host::canonical(request)?;
        connection::check(request)?;
        let mut best: Option<(Number, &Arc<Route>)> = None;
        self.index.candidates(&host, &target, request, |numbers| {
            let earlier = |n: &&Number| best.is_none_or(|(found, _)| **n < found);
            for number in numbers.iter().take_while(earlier) {
                let at = usize::try_from(*number).unwrap_or(usize::MAX);
                if let Some(route) = self.routes.get(at).filter(|r| r.accepts(request)) {
                    best = Some((*number, route));
                    break;
                }
            }
        });
        let accepts = |route: &Route| {
            (!target.encoded_slash || route.accepts_encoded_slash)
                && (!target.semicolon || route.accepts_semicolon)
        };
        match best {
            Some((_, route)) if accepts(route) => Ok(Matched { route, request, target, host }),
            None if !(target.encoded_slash || target.semicolon) => Err(Code::NoRoute.into()),
            _ => Err(Refusal::new(
                Code::PathNotCanonical,
                "the path holds an encoded slash or a semicolon that no matching route accepts",
            )),
        }
    }
}

impl<'t> Matched<'t, '_> {
    /// The route.
    #[must_use]
    pub fn route(&self) -> &'t Arc<Route> {
        self.route
    }

    /// The host in its one spelling.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}
