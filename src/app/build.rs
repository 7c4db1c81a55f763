//! Configuration → everything that Checks decide by. Opens no port and calls nobody.

use std::path::Path;
use std::sync::Arc;

use super::Prepared;
use super::adapters::{Finishing, RegoMapper};
use super::enduring::Enduring;
use crate::authn::{Authenticator, TokensConfig, Verifier};
use crate::check::Snapshot;
use crate::check::ask::Desk;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::context::{Contexts, Mapper, Resolver};
use crate::model::{Fragment, Identity, Problem};
use crate::policy::{Decider, Embedded, Finish, Opa, PolicyConfig, PolicyEngine};
use crate::rego::Bundle;
use crate::respond::{Finisher, Responder};
use crate::route::{Table, open_dates};
use crate::serve;
use crate::store::{Memory, Redis, Store};
use crate::telemetry::Metrics;
use crate::telemetry::trace::Collector;

/// Seconds that an unavailable answer asks the client to wait where no dependency knows better.
const RETRY_AFTER: u32 = 1;

/// Builds what `config` describes; relative paths start at `base`.
///
/// # Errors
/// Everything that is wrong, at once: policies that do not compile, keys that cannot be read, …
pub fn prepare(config: &Config, base: &Path) -> Result<Prepared, Vec<Problem>> {
    let (clock, metrics) = (Clock::system(), Arc::new(Metrics::new()));
    let mut problems = Vec::new();
    let store = keep(&mut problems, "/store", build_store(config, base, &clock, &metrics));
    // What else is wrong is told all the same.
    let store = store.unwrap_or_else(|| memory(config, &clock, &metrics));
    let enduring = Enduring::new(config, store, clock, metrics);
    match prepare_on(&enduring, None, config, base) {
        Ok(prepared) if problems.is_empty() => Ok(prepared),
        Ok(_) => Err(problems),
        Err(others) => Err(problems.into_iter().chain(others).collect()),
    }
}

/// As [`prepare`], on what outlives a configuration, and with the keys of the verifier `before`.
pub(super) fn prepare_on(
    enduring: &Enduring,
    before: Option<&Verifier>,
    config: &Config,
    base: &Path,
) -> Result<Prepared, Vec<Problem>> {
    let (clock, metrics) = (enduring.clock.clone(), Arc::clone(&enduring.metrics));
    let mut problems = Vec::new();
    let bundle = keep(&mut problems, "/policy", load_bundle(config, base));
    let (issuers, tokens) = (&config.issuers, &config.tokens);
    let shown = (&metrics, enduring.invalidations.generations());
    let verifier = Verifier::succeeding(before, issuers, tokens, base, &clock, shown);
    let verifier = keep(&mut problems, "/issuers", verifier);
    let routes = keep(&mut problems, "/routes", Table::new(&config.routes, &config.path));
    if config.routes.is_empty() && config.api.is_none() {
        let message = "there is no route, so that every request would be denied";
        let fix = "add one: `{ name: all, match: { path_prefix: / }, access: authenticated }`";
        problems.push(Problem::new("/routes", message, fix));
    }
    let (far, _) = open_dates(&config.routes, &clock.now());
    problems.extend(far.into_iter().map(|problem| problem.under("/routes")));
    if before.is_some() {
        warn_of_past_dates(config);
    }
    let secured = serve::Secured::new(&config.listen, &clock.now());
    let secured = keep(&mut problems, "/listen", secured);
    let collector = keep(&mut problems, "/tracing", Collector::read(&config.tracing, base));
    let (mut contexts, mut decider) = (None, None);
    if let Some(bundle) = &bundle {
        let built = build_contexts(config, base, bundle.as_ref(), enduring);
        contexts = keep(&mut problems, "/user_context", built);
        decider =
            keep(&mut problems, "/policy", build_decider(config, base, bundle.as_ref(), enduring));
    }
    let (Some(bundle), Some(verifier), Some(routes), Some(contexts), Some(decider)) =
        (bundle, verifier, routes, contexts, decider)
    else {
        return Err(problems);
    };
    let (Some(secured), Some(collector)) = (secured, collector) else {
        return Err(problems);
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    let verifier = Arc::new(verifier);
    let authenticator = Arc::clone(&verifier) as Arc<dyn Authenticator>;
    let responder = Responder::new(&config.headers, RETRY_AFTER);
    let desk = config.api.as_ref().zip(decider.clone()).map(|(api, decider)| {
        let (authenticator, contexts) = (Arc::clone(&authenticator), Arc::clone(&contexts));
        Arc::new(Desk::new(api, authenticator, contexts, decider, responder.clone()))
    });
    let snapshot = Snapshot {
        routes,
        authenticator,
        contexts,
        decider,
        responder,
        anonymous: Fragment::from_json(Identity::ANONYMOUS.json()),
        desk,
    };
    let (snapshot, enduring) = (Arc::new(snapshot), enduring.clone());
    let reasons = reasons_of(config, bundle.as_ref());
    Ok(Prepared {
        snapshot,
        clock,
        metrics,
        verifier,
        bundle,
        reasons,
        secured,
        collector,
        enduring,
    })
}

/// Routes of `config` that were open while OPA fails, up to a date that is past: they are closed
/// again. A fault to who writes the file; to who serves it no reason to stop, or to hold up the
/// reload of keys and certificates, for closed is the safe reading.
#[must_use]
pub fn past_dates(config: &Config) -> Vec<Problem> {
    let (_, past) = open_dates(&config.routes, &Clock::system().now());
    past.into_iter().map(|problem| problem.under("/routes")).collect()
}

/// Logs the [`past_dates`].
pub fn warn_of_past_dates(config: &Config) {
    for Problem { pointer, message, .. } in past_dates(config) {
        tracing::warn!(at = pointer, message, "this route is closed again");
    }
}

/// The reasons that the entry points' rules can give: they become metric labels.
fn reasons_of(config: &Config, bundle: Option<&Arc<Bundle>>) -> Vec<Arc<str>> {
    let entries = || config.policy.iter().flat_map(|policy| &policy.entry_points);
    let rules = || entries().map(|entry| entry.rule.as_str());
    bundle.into_iter().flat_map(|bundle| bundle.reasons(rules())).collect()
}

/// The value, or its problems noted as seen from the whole configuration.
fn keep<T>(
    problems: &mut Vec<Problem>,
    section: &str,
    built: Result<T, Vec<Problem>>,
) -> Option<T> {
    built
        .map_err(|found| problems.extend(found.into_iter().map(|problem| problem.under(section))))
        .ok()
}

/// What building would say of the sections that could be read, where others cannot: so that
/// faults of policies and keys show in one report with those of the file.
#[must_use]
pub fn probe(parts: &config::Parts, base: &Path) -> Vec<Problem> {
    let (clock, metrics) = (Clock::system(), Arc::new(Metrics::new()));
    let mut problems = Vec::new();
    if let Some(issuers) = &parts.issuers {
        let tokens = TokensConfig::default();
        let verifier = Verifier::new(issuers, &tokens, base, &clock, &metrics);
        keep(&mut problems, "/issuers", verifier.map(drop));
    }
    let bundle = |policy: &PolicyConfig| Bundle::load(&policy.paths, base);
    if let Some(Some(policy)) = &parts.policy
        && policy.engine == PolicyEngine::Embedded
        && let Some(bundle) = keep(&mut problems, "/policy", bundle(policy))
    {
        for (index, entry) in policy.entry_points.iter().enumerate() {
            if let Err(problem) = bundle.rule(&entry.rule, entry.reads_time) {
                problems.push(problem.under(&format!("/policy/entry_points/{index}/rule")));
            }
        }
    }
    problems
}

fn load_bundle(config: &Config, base: &Path) -> Result<Option<Arc<Bundle>>, Vec<Problem>> {
    let policy = config.policy.as_ref().filter(|policy| !policy.paths.is_empty());
    policy.map(|policy| Bundle::load(&policy.paths, base)).transpose()
}

fn build_store(
    config: &Config,
    base: &Path,
    clock: &Clock,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn Store>, Vec<Problem>> {
    let Some(redis) = &config.store.redis else { return Ok(memory(config, clock, metrics)) };
    let under = |problems: Vec<Problem>| problems.into_iter().map(|p| p.under("/redis")).collect();
    let redis = Redis::new(redis, base, clock.clone(), metrics);
    Ok(Arc::new(redis.map_err(|problems| -> Vec<Problem> { under(problems) })?))
}

fn memory(config: &Config, clock: &Clock, metrics: &Arc<Metrics>) -> Arc<dyn Store> {
    Arc::new(Memory::alone(config.user_context.cache.0, clock.clone(), metrics))
}

fn build_contexts(
    config: &Config,
    base: &Path,
    bundle: Option<&Arc<Bundle>>,
    enduring: &Enduring,
) -> Result<Arc<dyn Contexts>, Vec<Problem>> {
    let section = &config.user_context;
    let mapper = match (&section.mapping, bundle, &config.policy) {
        (Some(path), Some(bundle), Some(policy)) => {
            let rule = bundle.rule(path, false).map_err(|mut problem| {
                "/mapping".clone_into(&mut problem.pointer);
                vec![problem]
            })?;
            Some(Arc::new(RegoMapper::new(rule, &policy.limits)) as Arc<dyn Mapper>)
        }
        (Some(path), _, _) => {
            let message = format!("`{path}` is a rule, and no policies are loaded");
            let fix = "add `policy.paths` with the file that has the rule";
            return Err(vec![Problem::new("/mapping", message, fix)]);
        }
        (None, _, _) => None,
    };
    let (shared, metrics) = (Arc::clone(&enduring.shared), Arc::clone(&enduring.metrics));
    let resolver = Resolver::new(section, mapper, shared, metrics, base)?;
    Ok(Arc::new(resolver))
}

fn build_decider(
    config: &Config,
    base: &Path,
    bundle: Option<&Arc<Bundle>>,
    enduring: &Enduring,
) -> Result<Option<Arc<dyn Decider>>, Vec<Problem>> {
    let Some(policy) = &config.policy else { return Ok(None) };
    let finish: Arc<dyn Finish> = Arc::new(Finishing(Finisher::new(&config.headers)));
    let state = enduring.policy(policy).map_err(|error| {
        let message = format!("the evaluating threads cannot be started: {error}");
        vec![Problem::new("", message, "raise the limit of threads of this process")]
    })?;
    Ok(match (policy.engine, bundle) {
        (PolicyEngine::Opa, _) => {
            Some(Arc::new(Opa::new(policy, &finish, state, &enduring.metrics, base)?))
        }
        (PolicyEngine::Embedded, Some(bundle)) => {
            Some(Arc::new(Embedded::new(policy, bundle, &finish, state)?))
        }
        (PolicyEngine::Embedded, None) => None,
    })
}
