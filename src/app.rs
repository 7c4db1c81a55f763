//! The one place that names concrete types together.
//!
//! [`prepare`] builds everything that a Check decides by, without opening a port or calling
//! anybody: `check-config` stops there, `decide` makes one Check with it, `serve` opens its doors.

mod adapters;

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::adapters::{Finishing, Journeys, Parts, RegoMapper};
use crate::audit::{Audit, AuditError};
use crate::authn::{Authenticator, Verifier};
use crate::check::Snapshot;
use crate::clock::Clock;
use crate::config::Config;
use crate::context::{Contexts, Mapper, Resolver, Shared};
use crate::model::{Identity, Problem};
use crate::policy::{Decider, Embedded, Finish, PolicyState};
use crate::rego::Bundle;
use crate::respond::{Finisher, Responder};
use crate::route::Table;
use crate::serve::{Bounds, Doors, Gate, Ready};
use crate::store::Memory;
use crate::telemetry::Metrics;

/// Seconds that an unavailable answer asks the client to wait where no dependency knows better.
const RETRY_AFTER: u32 = 1;

/// Stack of the runtime's threads: the mapping rule may need 2 MiB of it.
const STACK: usize = 4 << 20;

/// Everything that Checks decide by, built and not yet running.
#[derive(Debug)]
pub struct Prepared {
    /// What one Check takes at its start.
    pub snapshot: Arc<Snapshot>,
    /// The process's clock.
    pub clock: Clock,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
    verifier: Arc<Verifier>,
    bundle: Option<Arc<Bundle>>,
}

/// Background work: keys are fetched and kept fresh until it is stopped.
#[derive(Debug)]
pub struct Running {
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Builds what `config` describes; relative paths start at `base`.
///
/// # Errors
/// Everything that is wrong, at once: policies that do not compile, keys that cannot be read, …
pub fn prepare(config: &Config, base: &Path) -> Result<Prepared, Vec<Problem>> {
    let (clock, metrics) = (Clock::system(), Arc::new(Metrics::new()));
    let mut problems = Vec::new();
    let bundle = keep(&mut problems, "/policy", load_bundle(config, base));
    let verifier = Verifier::new(&config.issuers, &config.tokens, base, &clock, &metrics);
    let verifier = keep(&mut problems, "/issuers", verifier);
    let routes = keep(&mut problems, "/routes", Table::new(&config.routes, &config.path));
    let (mut contexts, mut decider) = (None, None);
    if let Some(bundle) = &bundle {
        let built = build_contexts(config, base, bundle.as_ref(), &clock, &metrics);
        contexts = keep(&mut problems, "/user_context", built);
        decider = keep(&mut problems, "/policy", build_decider(config, bundle.as_ref(), &metrics));
    }
    let (Some(bundle), Some(verifier), Some(routes), Some(contexts), Some(decider)) =
        (bundle, verifier, routes, contexts, decider)
    else {
        return Err(problems);
    };
    let verifier = Arc::new(verifier);
    let snapshot = Snapshot {
        routes,
        authenticator: Arc::clone(&verifier) as Arc<dyn Authenticator>,
        contexts,
        decider,
        responder: Responder::new(&config.headers, RETRY_AFTER),
        anonymous: Identity::anonymous(),
    };
    if let Some(bundle) = &bundle {
        metrics.policy_revision(bundle.revision());
    }
    Ok(Prepared { snapshot: Arc::new(snapshot), clock, metrics, verifier, bundle })
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

fn load_bundle(config: &Config, base: &Path) -> Result<Option<Arc<Bundle>>, Vec<Problem>> {
    config.policy.as_ref().map(|policy| Bundle::load(&policy.paths, base)).transpose()
}

fn build_contexts(
    config: &Config,
    base: &Path,
    bundle: Option<&Arc<Bundle>>,
    clock: &Clock,
    metrics: &Arc<Metrics>,
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
    let cache = section.cache.0;
    let store = Arc::new(Memory::new(cache, clock.clone(), metrics));
    let shared = Shared::new(cache, store, clock.clone(), metrics);
    let resolver = Resolver::new(section, mapper, shared, Arc::clone(metrics), base)?;
    Ok(Arc::new(resolver))
}

fn build_decider(
    config: &Config,
    bundle: Option<&Arc<Bundle>>,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<dyn Decider>>, Vec<Problem>> {
    let (Some(policy), Some(bundle)) = (&config.policy, bundle) else { return Ok(None) };
    let finish: Arc<dyn Finish> = Arc::new(Finishing(Finisher::new(&config.headers)));
    let state = PolicyState::new(policy, metrics).map_err(|error| {
        let message = format!("the evaluating threads cannot be started: {error}");
        vec![Problem::new("", message, "raise the limit of threads of this process")]
    })?;
    let embedded = Embedded::new(policy, bundle, &finish, state)?;
    Ok(Some(Arc::new(embedded)))
}

impl Prepared {
    /// Starts the background work. The first fetch of keys is under way when this returns.
    #[must_use]
    pub fn start(&self) -> Running {
        let running = Running { stop: CancellationToken::new(), tasks: TaskTracker::new() };
        let (verifier, stop) = (Arc::clone(&self.verifier), running.stop.clone());
        running.tasks.spawn(async move { verifier.run(stop).await });
        running
    }

    /// Waits until every required issuer has keys, for at most `patience`.
    pub async fn keys_within(&self, patience: std::time::Duration) {
        let keys = async {
            while !self.verifier.ready() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        // Late keys show in the Check itself, as *unavailable*.
        let _ = tokio::time::timeout(patience, keys).await;
    }

    /// Revision of the policies, where there are any.
    #[must_use]
    pub fn policy_revision(&self) -> Option<&Arc<str>> {
        self.bundle.as_ref().map(|bundle| bundle.revision())
    }

    /// The doors over bound addresses.
    ///
    /// # Errors
    /// If the audit sink cannot be opened.
    pub fn doors(&self, config: &Config, base: &Path, bounds: Bounds) -> Result<Doors, AuditError> {
        let audit = Audit::start(&config.audit, base, Arc::clone(&self.metrics))?;
        let reasons = self.bundle.iter().flat_map(|bundle| bundle.reasons().iter().cloned());
        let gate = Gate::new(
            Arc::new(Journeys::new(Arc::clone(&self.snapshot))),
            self.clock.clone(),
            Arc::clone(&self.metrics),
            audit.clone(),
            &config.limits,
            &config.check,
            reasons,
        );
        let parts = Parts::new(Arc::clone(&self.verifier), self.policy_revision().cloned());
        Ok(Doors {
            bounds,
            gate: Arc::new(gate),
            limits: config.limits.clone(),
            drain: config.drain.clone(),
            envoy: config.envoy.clone(),
            ready: Arc::new(Ready::new(Arc::new(parts))),
            metrics: Arc::clone(&self.metrics),
            audit,
        })
    }
}

impl Running {
    /// Ends the background work and waits for it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The asynchronous runtime, as `config` sizes it.
///
/// # Errors
/// If its threads cannot be started.
pub fn runtime(config: &Config) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = config.runtime.threads {
        builder.worker_threads(usize::from(threads));
    }
    builder.thread_stack_size(STACK).enable_all().build()
}
