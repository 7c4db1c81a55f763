//! The one place that names concrete types together.
//!
//! [`prepare`] builds everything that a Check decides by, without opening a port or calling
//! anybody: `check-config` stops there, `decide` makes one Check with it, `serve` opens its doors.

mod adapters;
mod build;
mod enduring;
mod fixed;
mod operate;
mod reload;
mod watch;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::adapters::{Journeys, Parts};
use self::build::prepare_on;
pub use self::build::{past_dates, prepare, probe, warn_of_past_dates};
use self::enduring::Enduring;
use self::operate::Operator;
pub use self::reload::Look;
use self::reload::{Live, Reloader};
use crate::audit::{Audit, AuditError};
use crate::authn::Verifier;
pub use crate::check::ask::hash_of_key;
use crate::check::{self, Snapshot};
use crate::clock::Clock;
use crate::config::{Config, Loaded};
use crate::model::{Outcome, Record, Request};
use crate::rego::{self, Bundle};
use crate::serve::{self, BindError, Bounds, Doors, EventLoops, Gate, Ready, ServeError, Shutdown};
use crate::telemetry::trace::{Collector, CollectorError};
use crate::telemetry::{LogHandle, Metrics};

/// How long one Check without a door waits for the issuers' keys; a running service has them
/// before it is asked.
const KEYS: Duration = Duration::from_secs(10);

/// Stack of the runtime's threads: an evaluation may need 2 MiB of it.
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
    /// Where spans go; nowhere where Checks are not traced.
    collector: Option<Collector>,
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
    /// The threads that serve Checks cannot be started.
    #[error("the threads that serve Checks cannot be started: {0}")]
    Threads(io::Error),
    /// The collector's client cannot be set up.
    #[error(transparent)]
    Tracing(#[from] CollectorError),
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

    /// The one way from a door to a decision, for a caller without doors.
    #[must_use]
    pub fn gate(&self, config: &Config, audit: Audit) -> Gate {
        self.gate_of(Arc::new(Journeys::new(Arc::clone(&self.snapshot))), config, audit)
    }

    fn gate_of(&self, journeys: Arc<Journeys>, config: &Config, audit: Audit) -> Gate {
        Gate::new(
            journeys,
            self.clock.clone(),
            Arc::clone(&self.metrics),
            audit,
            &config.limits,
            &config.check,
            self.reasons(),
        )
    }

    fn doors(
        &self,
        loaded: &Loaded,
        bounds: Bounds,
        log: LogHandle,
    ) -> Result<(Doors, Live), StartError> {
        let config = &loaded.config;
        let audit = Audit::start(&config.audit, loaded.base(), Arc::clone(&self.metrics))?;
        let journeys = Arc::new(Journeys::new(Arc::clone(&self.snapshot)));
        let started = self.collector.clone().map(|to| to.start(&self.metrics)).transpose()?;
        let (tracer, exporting) = started.unzip();
        let gate = self.gate_of(Arc::clone(&journeys), config, audit.clone());
        let gate = Arc::new(gate.traced_by(tracer));
        let loops = EventLoops::start(threads(config), STACK, rego::has_room);
        let parts = Arc::new(Parts::new(self.told(loaded), Arc::clone(&self.metrics)));
        let certificates = bounds.certificates();
        let (reloads, asked) = mpsc::channel(1);
        let operator = Operator {
            enduring: self.enduring.clone(),
            parts: Arc::clone(&parts),
            reloads,
            log,
            began: Instant::now(),
        };
        let live = Live {
            certificates,
            asked,
            journeys: Arc::clone(&journeys),
            gate: Arc::clone(&gate),
            parts: Arc::clone(&parts),
        };
        let doors = Doors {
            bounds,
            loops: loops.map_err(StartError::Threads)?,
            gate,
            operate: Some(Arc::new(operator)),
            asks: config.api.is_some().then_some(journeys as Arc<dyn serve::Asks>),
            limits: config.limits.clone(),
            drain: config.drain.clone(),
            envoy: config.envoy,
            ready: Arc::new(Ready::new(parts)),
            metrics: Arc::clone(&self.metrics),
            audit,
            traces: exporting,
        };
        Ok((doors, live))
    }
}

/// Serves what `prepared` decides, and what a reload puts in its place, until SIGTERM or SIGINT.
///
/// # Errors
/// An address that cannot be bound, an audit sink that cannot be opened; nothing serves then.
pub async fn run(
    prepared: Prepared,
    loaded: Loaded,
    look: Look,
    log: LogHandle,
) -> Result<(), StartError> {
    let shutdown = Shutdown::on_signals()?;
    let hangups = reload::hangups()?;
    let bounds = serve::bind(&loaded.config.listen)?;
    let [check, admin, api, control] = bounds.places();
    let (doors, live) = prepared.doors(&loaded, bounds, log)?;
    prepared.show(&loaded);
    live.certificates.show(&prepared.metrics);
    tracing::info!(
        check,
        admin,
        api,
        control,
        configuration = loaded.revision(),
        policies = prepared.policy_revision().map_or("none", |revision| revision),
        traces = prepared.collector.as_ref().map_or("none", Collector::url),
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    tokio::spawn(give_back_memory());
    let listening = Arc::clone(&prepared.enduring.invalidations).listen();
    let listening = tokio::spawn(listening);
    let reloader = Reloader::start(live, (prepared, loaded, look), hangups);
    let drained = serve::run(doors, shutdown).await;
    reloader.stop().await;
    listening.abort();
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

fn threads(config: &Config) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    config.runtime.threads.map_or_else(cores, usize::from)
}

/// The asynchronous runtime, as `config` sizes it.
///
/// # Errors
/// If its threads cannot be started.
pub fn runtime(config: &Config) -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(threads(config))
        .thread_stack_size(STACK)
        .on_thread_start(rego::has_room)
        .enable_all()
        .build()
}
