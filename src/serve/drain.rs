//! Serving until a signal, and ending within the grace time whatever peers do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::service::TowerToHyperService;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Asks;
use super::config::{Drain, Envoy, Limits};
use super::connection::{Door, Protocol};
use super::control::{self, Operate};
use super::event_loops::EventLoops;
use super::ext_authz::{Health, Service};
use super::gate::Gate;
use super::http::{admin, api};
use super::listener::Bounds;
use super::ready::Ready;
use crate::audit::Audit;
use crate::telemetry::Metrics;
use crate::telemetry::trace::Exporting;

/// How often readiness is looked at until it is there.
const LOOK: Duration = Duration::from_millis(10);

/// Longest time that the collector has for the last spans.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// What audit still gets after a second signal.
const LAST_FLUSH: Duration = Duration::from_millis(500);

/// What is to be served, on addresses that are bound already.
#[derive(Debug)]
pub struct Doors {
    /// Where.
    pub bounds: Bounds,
    /// Where the check door's connections are served.
    pub loops: EventLoops,
    /// Who decides.
    pub gate: Arc<Gate>,
    /// What the decision API answers by; none where there is no such door.
    pub asks: Option<Arc<dyn Asks>>,
    /// What the control door operates; none where there is no such door.
    pub operate: Option<Arc<dyn Operate>>,
    /// Bounds of connections and messages.
    pub limits: Limits,
    /// How it ends.
    pub drain: Drain,
    /// Which Envoys ask.
    pub envoy: Envoy,
    /// Whether new Checks should come here.
    pub ready: Arc<Ready>,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
    /// Flushed last, but for traces.
    pub audit: Audit,
    /// Sent last, as far as the time allows; none where Checks are not traced.
    pub traces: Option<Exporting>,
}

/// Why serving could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process cannot be told to end.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

/// When to end: gracefully, and at once.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    pub(super) drain: CancellationToken,
    pub(super) now: CancellationToken,
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Every connection ended by itself; otherwise the grace time or a second signal cut some.
    pub complete: bool,
    /// Every audit event was handed to the sink.
    pub flushed: bool,
}

impl Shutdown {
    /// Nothing ends it but [`Shutdown::begin`]; for tests.
    #[must_use]
    pub fn manual() -> Self {
        Self::default()
    }

    /// Ends with the first SIGTERM or SIGINT, and at once with the second.
    ///
    /// # Errors
    /// If the signals cannot be listened for.
    pub fn on_signals() -> Result<Self, ServeError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
        let shutdown = Self::default();
        let theirs = shutdown.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => theirs.begin(),
                    _ = interrupt.recv() => theirs.begin(),
                }
            }
        });
        Ok(shutdown)
    }

    /// The first call begins the drain, the second ends it.
    pub fn begin(&self) {
        if self.drain.is_cancelled() {
            tracing::warn!("ending at once");
            self.now.cancel();
        } else {
            tracing::info!("draining");
            self.drain.cancel();
        }
    }
}

/// Serves until `shutdown`, then drains: health says `NOT_SERVING`, connections are told to go
/// away, Checks under way finish, and audit is flushed last.
pub async fn run(doors: Doors, shutdown: Shutdown) -> Drained {
    let limits = Arc::new(doors.limits);
    let (loops, here) = (Arc::new(doors.loops), Arc::new(EventLoops::none()));
    let door = |name, protocol| Door {
        name,
        protocol,
        limits: limits.clone(),
        metrics: doors.metrics.clone(),
        tasks: TaskTracker::new(),
        drain: CancellationToken::new(),
        cut: CancellationToken::new(),
        slots: Arc::new(Semaphore::new(limits.max_connections as usize)),
        failing: Arc::default(),
        loops: Arc::clone(&here),
    };
    let check = Door { loops, ..door("check", Protocol::Http2) };
    let admin = door("admin", Protocol::Http1);
    let size = limits.max_check_size.as_usize();
    let questions = door("api", Protocol::Http1);
    let (service, health) = Service::new(doors.gate.clone(), doors.envoy, size).await;
    let shown = doors.bounds.shown();
    for bound in doors.bounds.check {
        check.listen(bound, service.clone());
    }
    let router = admin::router(doors.ready.clone(), doors.metrics.clone());
    for bound in doors.bounds.admin {
        admin.listen(bound, TowerToHyperService::new(router.clone()));
    }
    if let Some(asks) = doors.asks {
        let router = api::router(doors.gate, asks, limits.header_timeout.0);
        for bound in doors.bounds.api {
            questions.listen(bound, TowerToHyperService::new(router.clone()));
        }
    }
    drop(service);
    let operated = door("control", Protocol::Http2);
    if let Some(operate) = doors.operate {
        let service = control::Service::new(operate, doors.ready.clone(), shown);
        for bound in doors.bounds.control {
            tracing::info!(door = "control", address = %bound.endpoint, "listening");
            operated.listen(bound, service.clone());
        }
    }

    announce(&doors.ready, &health, &shutdown).await;
    shutdown.drain.cancelled().await;
    let plan = Plan::new(&doors.drain, Instant::now());
    doors.ready.drain();
    health.set(false).await;
    let _ = shutdown.now.run_until_cancelled(sleep(plan.notice)).await;

    let (checks, asked, _) = tokio::join!(
        check.end(plan.cut, &shutdown.now),
        questions.end(plan.cut, &shutdown.now),
        operated.end(plan.cut, &shutdown.now)
    );
    let complete = checks && asked;
    // Probes see that it drains until there is nothing left to drain.
    admin.end(Instant::now() + plan.margin.min(Duration::from_millis(200)), &shutdown.now).await;
    let flushed = flush(doors.audit, plan.end, &shutdown.now).await;
    if !flushed {
        tracing::error!("audit events were lost at the end: the sink did not take them in time");
    }
    if let Some(traces) = doors.traces {
        // A collector that hangs must not keep the process.
        let until = plan.end.min(Instant::now() + LAST_SPANS);
        let _ = shutdown.now.run_until_cancelled(traces.stop(until)).await;
    }
    Drained { complete, flushed }
}

/// Flushes audit until `deadline`, or for a moment more once `now` is cancelled. A thread of its
/// own waits for the sink: the runtime's end would wait for one of the runtime's.
async fn flush(audit: Audit, deadline: Instant, now: &CancellationToken) -> bool {
    let (done, mut wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = done.send(audit.flush(deadline));
    });
    match now.run_until_cancelled(&mut wait).await {
        Some(flushed) => flushed.unwrap_or(false),
        None => tokio::time::timeout(LAST_FLUSH, wait).await.is_ok_and(|f| f.unwrap_or(false)),
    }
}

/// Says `SERVING` once everything required is there.
async fn announce(ready: &Ready, health: &Health, shutdown: &Shutdown) {
    while !ready.is_ready() {
        if shutdown.drain.run_until_cancelled(sleep(LOOK)).await.is_none() {
            return;
        }
    }
    tracing::info!("ready");
    health.set(true).await;
}

/// How the grace time is spent.
struct Plan {
    notice: Duration,
    /// Kept of the grace time for what follows the check door.
    margin: Duration,
    /// When connections that are left are dropped.
    cut: Instant,
    /// When the process must be gone.
    end: Instant,
}

impl Plan {
    fn new(drain: &Drain, start: Instant) -> Self {
        let grace = drain.grace.0;
        let margin = (grace / 4).min(Duration::from_secs(2));
        let at = |after| start.checked_add(after).unwrap_or(start);
        // The flush ends a little before the grace time, so that the exit lies within it.
        let end = at(grace.saturating_sub(margin / 4));
        Self { notice: drain.notice.0, margin, cut: at(grace.saturating_sub(margin)), end }
    }
}

impl Door {
    /// Asks every connection to end, waits, and drops what is left at `deadline` or when `now`
    /// is cancelled. Says whether nothing was left.
    async fn end(&self, deadline: Instant, now: &CancellationToken) -> bool {
        self.drain.cancel();
        self.tasks.close();
        let waited = timeout_at(deadline.into(), self.tasks.wait());
        if let Some(Ok(())) = now.run_until_cancelled(waited).await {
            return true;
        }
        self.cut.cancel();
        // Dropping a connection ends its streams' tasks; each is told of in audit.
        let _ = timeout_at((Instant::now() + LOOK * 10).into(), self.tasks.wait()).await;
        false
    }
}
