//! The one place that names concrete types together.
//!
//! [`prepare`] builds everything that a Check decides by, without opening a port or calling
//! anybody: `check-config` stops there, `decide` makes one Check with it, `serve` opens its doors.

mod adapters;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::adapters::{Finishing, Journeys, Parts, RegoMapper};
use crate::audit::{Audit, AuditError};
use crate::authn::{Authenticator, TokensConfig, Verifier};
use crate::check::ask::Desk;
pub use crate::check::ask::hash_of_key;
use crate::check::{self, Snapshot};
use crate::clock::Clock;
use crate::config::{self, Config, Loaded};
use crate::context::{Contexts, Mapper, Resolver, Shared};
use crate::model::{Identity, Outcome, Problem, Record, Request};
use crate::policy::{Decider, Embedded, Finish, PolicyConfig, PolicyState};
use crate::rego::Bundle;
use crate::respond::{Finisher, Responder};
use crate::route::Table;
use crate::serve::{self, BindError, Bounds, Doors, Gate, Ready, ServeError, Shutdown};
use crate::store::Memory;
use crate::telemetry::Metrics;

/// How long one Check without a door waits for the issuers' keys; a running service has them
/// before it is asked.
const KEYS: Duration = Duration::from_secs(10);

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

/// One Check without a door, ended.
#[derive(Debug)]
pub struct Explained {
    /// How it ended.
    pub outcome: Outcome,
    /// What is told of it.
    pub record: Record,
    /// The document that the policy saw, without time fields.
    pub input: Option<String>,
}

/// Why the service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The audit sink cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Signals cannot be listened for.
    #[error(transparent)]
    Serve(#[from] ServeError),
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
        anonymous: Identity::anonymous(),
        desk,
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

    /// Revision of the policies, where there are any.
    #[must_use]
    pub fn policy_revision(&self) -> Option<&Arc<str>> {
        self.bundle.as_ref().map(|bundle| bundle.revision())
    }

    /// Makes one Check without a door, once the keys are there.
    pub async fn explain(&self, request: &Request, budget: Duration) -> Explained {
        let running = self.start();
        self.keys_within(KEYS).await;
        let now = self.clock.now();
        let deadline = Instant::now().checked_add(budget).unwrap_or_else(Instant::now);
        let mut record = Record::default();
        serve::describe(&mut record, request);
        let (outcome, input) =
            check::explain(request, &self.snapshot, now, deadline, &mut record).await;
        running.stop().await;
        Explained { outcome, record, input }
    }

    /// Waits until every required issuer has keys, for at most `patience`. Keys that are later
    /// show in the Check itself, as *unavailable*.
    async fn keys_within(&self, patience: Duration) {
        let keys = async {
            while !self.verifier.ready() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(patience, keys).await;
    }

    fn doors(&self, config: &Config, base: &Path, bounds: Bounds) -> Result<Doors, AuditError> {
        let audit = Audit::start(&config.audit, base, Arc::clone(&self.metrics))?;
        let reasons = self.bundle.iter().flat_map(|bundle| bundle.reasons().iter().cloned());
        let journeys = Arc::new(Journeys::new(Arc::clone(&self.snapshot)));
        let gate = Gate::new(
            Arc::clone(&journeys) as Arc<dyn serve::Decide>,
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
            asks: config.api.is_some().then_some(journeys),
            limits: config.limits.clone(),
            drain: config.drain.clone(),
            envoy: config.envoy.clone(),
            ready: Arc::new(Ready::new(Arc::new(parts))),
            metrics: Arc::clone(&self.metrics),
            audit,
        })
    }
}

/// Serves what `prepared` decides until SIGTERM or SIGINT.
///
/// # Errors
/// An address that cannot be bound, an audit sink that cannot be opened; nothing serves then.
pub async fn run(prepared: &Prepared, loaded: &Loaded) -> Result<(), StartError> {
    let (config, base) = (&loaded.config, loaded.base());
    let shutdown = Shutdown::on_signals()?;
    let bounds = serve::bind(&config.listen)?;
    let doors = prepared.doors(config, base, bounds)?;
    let running = prepared.start();
    tracing::info!(
        configuration = loaded.revision(),
        policies = prepared.policy_revision().map_or("none", |revision| revision),
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    running.tasks.spawn(give_back_memory(running.stop.clone()));
    let drained = serve::run(doors, shutdown).await;
    running.stop().await;
    tracing::info!(complete = drained.complete, audit_flushed = drained.flushed, "stopped");
    Ok(())
}

/// Start-up leaves more than half of the heap free, and the allocator gives free memory back to
/// the system only when it is asked for some a second or more after it was freed.
async fn give_back_memory(stop: CancellationToken) {
    let settled = tokio::time::sleep(Duration::from_millis(1_200));
    if stop.run_until_cancelled(settled).await.is_some() {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
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
