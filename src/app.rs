//! The one place that names concrete types together.
//!
//! [`prepare`] builds everything that a Check decides by, without opening a port or calling
//! anybody: `check-config` stops there, `decide` makes one Check with it, `serve` opens its doors.

mod adapters;
mod enduring;
mod fixed;
mod reload;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::adapters::{Finishing, Journeys, Parts, RegoMapper};
use self::enduring::Enduring;
pub use self::reload::Look;
use self::reload::{Live, Reloader};
use crate::audit::{Audit, AuditError};
use crate::authn::{Authenticator, TokensConfig, Verifier};
use crate::check::{self, Snapshot};
use crate::clock::Clock;
use crate::config::{self, Config, Loaded};
use crate::context::{Contexts, Mapper, Resolver};
use crate::model::{Identity, Outcome, Problem, Record, Request};
use crate::policy::{Decider, Embedded, Finish, Opa, PolicyConfig, PolicyEngine};
use crate::rego::Bundle;
use crate::respond::{Finisher, Responder};
use crate::route::Table;
use crate::serve::{self, BindError, Bounds, Doors, Gate, Ready, ServeError, Shutdown};
use crate::store::{Memory, Redis, Store};
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
    reasons: Vec<Arc<str>>,
    secured: serve::Secured,
    enduring: Enduring,
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
fn prepare_on(
    enduring: &Enduring,
    before: Option<&Verifier>,
    config: &Config,
    base: &Path,
) -> Result<Prepared, Vec<Problem>> {
    let (clock, metrics) = (enduring.clock.clone(), Arc::clone(&enduring.metrics));
    let mut problems = Vec::new();
    let bundle = keep(&mut problems, "/policy", load_bundle(config, base));
    let (issuers, tokens) = (&config.issuers, &config.tokens);
    let verifier = Verifier::succeeding(before, issuers, tokens, base, &clock, &metrics);
    let verifier = keep(&mut problems, "/issuers", verifier);
    let routes = keep(&mut problems, "/routes", Table::new(&config.routes, &config.path));
    let secured = serve::Secured::new(&config.listen, &clock.now());
    let secured = keep(&mut problems, "/listen", secured);
    let (mut contexts, mut decider) = (None, None);
    if let Some(bundle) = &bundle {
        let built = build_contexts(config, base, bundle.as_ref(), enduring);
        contexts = keep(&mut problems, "/user_context", built);
        decider =
            keep(&mut problems, "/policy", build_decider(config, base, bundle.as_ref(), enduring));
    }
    let (Some(bundle), Some(verifier), Some(routes), Some(contexts), Some(decider), Some(secured)) =
        (bundle, verifier, routes, contexts, decider, secured)
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
    let (snapshot, enduring) = (Arc::new(snapshot), enduring.clone());
    let reasons = reasons_of(config, bundle.as_ref());
    Ok(Prepared { snapshot, clock, metrics, verifier, bundle, reasons, secured, enduring })
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
    Arc::new(Memory::new(config.user_context.cache.0, clock.clone(), metrics))
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

    /// Reasons that the policies name, which become metric labels.
    fn reasons(&self) -> impl Iterator<Item = Arc<str>> {
        self.reasons.iter().cloned()
    }

    fn doors(&self, loaded: &Loaded, bounds: Bounds) -> Result<(Doors, Live), AuditError> {
        let config = &loaded.config;
        let audit = Audit::start(&config.audit, loaded.base(), Arc::clone(&self.metrics))?;
        let journeys = Arc::new(Journeys::new(Arc::clone(&self.snapshot)));
        let gate = Gate::new(
            Arc::clone(&journeys) as Arc<dyn serve::Decide>,
            self.clock.clone(),
            Arc::clone(&self.metrics),
            audit.clone(),
            &config.limits,
            &config.check,
            self.reasons(),
        );
        let gate = Arc::new(gate);
        let parts = Arc::new(Parts::new(self.told(loaded), Arc::clone(&self.metrics)));
        let certificates = bounds.certificates();
        let live =
            Live { certificates, journeys, gate: Arc::clone(&gate), parts: Arc::clone(&parts) };
        let doors = Doors {
            bounds,
            gate,
            limits: config.limits.clone(),
            drain: config.drain.clone(),
            envoy: config.envoy.clone(),
            ready: Arc::new(Ready::new(parts)),
            metrics: Arc::clone(&self.metrics),
            audit,
        };
        Ok((doors, live))
    }
}

/// Serves what `prepared` decides, and what a reload puts in its place, until SIGTERM or SIGINT.
///
/// # Errors
/// An address that cannot be bound, an audit sink that cannot be opened; nothing serves then.
pub async fn run(prepared: Prepared, loaded: Loaded, look: Look) -> Result<(), StartError> {
    let shutdown = Shutdown::on_signals()?;
    let hangups = reload::hangups()?;
    let bounds = serve::bind(&loaded.config.listen)?;
    let (doors, live) = prepared.doors(&loaded, bounds)?;
    prepared.show(&loaded);
    live.certificates.show(&prepared.metrics);
    tracing::info!(
        configuration = loaded.revision(),
        policies = prepared.policy_revision().map_or("none", |revision| revision),
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    tokio::spawn(give_back_memory());
    let reloader = Reloader::start(live, (prepared, loaded, look), hangups);
    let drained = serve::run(doors, shutdown).await;
    reloader.stop().await;
    tracing::info!(complete = drained.complete, audit_flushed = drained.flushed, "stopped");
    Ok(())
}

/// Start-up leaves more than half of the heap free, and the allocator gives free memory back to
/// the system only when it is asked for some a second or more after it was freed.
async fn give_back_memory() {
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
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
