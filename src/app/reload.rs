//! Reload: the next configuration is built beside the one in force and put in its place whole,
//! or not at all. Checks in flight finish on the snapshot that they began with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::adapters::{Journeys, Parts, Told};
use super::{KEYS, Prepared, Running, StartError, fixed, prepare_on, probe, watch};
use crate::config::{self, Environment, Loaded};
use crate::serve::control::messages::ReloadResponse;
use crate::serve::{Certificates, Gate, ServeError};

/// How long files that changed must stay as they are before they are read.
const SETTLE: Duration = Duration::from_millis(20);
/// Readings of files that change meanwhile, before the next look.
const TRIES: u32 = 20;
/// Longest reason shown by `/ready?verbose`, in characters.
const MAX_REASON: usize = 300;

/// What a reload changes in the running process.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) journeys: Arc<Journeys>,
    pub(super) gate: Arc<Gate>,
    pub(super) parts: Arc<Parts>,
    pub(super) certificates: Certificates,
    /// Reloads that the control door asks for.
    pub(super) asked: Asked,
}

/// Asks for a reload; the answer comes when it ended.
pub(super) type Ask = oneshot::Sender<ReloadResponse>;
/// Reloads that were asked for.
pub(super) type Asked = mpsc::Receiver<Ask>;

/// What the files of a configuration were before it was read, so that no later change is missed.
#[derive(Debug)]
pub struct Look {
    files: Vec<PathBuf>,
    print: watch::Print,
}

impl Look {
    /// Looks at `file` and at all that it names.
    #[must_use]
    pub fn at(file: &Path) -> Self {
        let files = config::files(file, &Environment::of_process());
        Self { print: watch::print(&files), files }
    }
}

/// SIGHUPs; from here on they do not end the process.
pub(super) fn hangups() -> Result<Signal, StartError> {
    signal(SignalKind::hangup()).map_err(|error| ServeError::Signals(error).into())
}

/// The task that reloads.
#[derive(Debug)]
pub(super) struct Reloader {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Reloader {
    /// Starts the background work of `prepared`, which is in force, and watches its files.
    pub(super) fn start(
        live: Live,
        (prepared, loaded, look): (Prepared, Loaded, Look),
        hangups: Signal,
    ) -> Self {
        let stop = CancellationToken::new();
        let (running, loaded) = (prepared.start(), Arc::new(loaded));
        let (first, prepared) = (Arc::clone(&loaded), Arc::new(prepared));
        let Look { files, print } = look;
        let task = Task { live, first, loaded, prepared, running, files, seen: Some(print) };
        let task = tokio::spawn(task.run(stop.clone(), hangups));
        Self { stop, task }
    }

    /// Ends it and the background work.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        // A panic in it is shown where it happened.
        drop(self.task.await);
    }
}

struct Task {
    live: Live,
    /// What the process started with.
    first: Arc<Loaded>,
    /// What is in force.
    loaded: Arc<Loaded>,
    prepared: Arc<Prepared>,
    running: Running,
    files: Vec<PathBuf>,
    /// The files' hash when they were last read; nothing where that is to be done again.
    seen: Option<watch::Print>,
}

/// The next one, built and not yet in force.
struct Next {
    loaded: Loaded,
    prepared: Prepared,
}

/// Why there is no next one.
struct Refused {
    why: String,
    /// It may pass without a change of any file.
    passing: bool,
}

impl Task {
    async fn run(mut self, stop: CancellationToken, mut hangups: Signal) {
        let mut told = String::new();
        loop {
            let interval = self.loaded.config.reload.interval.0;
            let mut tell = None;
            let asked = tokio::select! {
                () = stop.cancelled() => break,
                _ = hangups.recv() => true,
                Some(ask) = self.live.asked.recv() => {
                    tell = Some(ask);
                    true
                }
                () = sleep(interval), if !interval.is_zero() => false,
            };
            if !asked && self.seen == Some(self.print().await) {
                continue;
            }
            let done = tokio::select! {
                () = stop.cancelled() => break,
                done = self.reload() => done,
            };
            if let Some(ask) = tell {
                // Whoever asked may be gone.
                let _ = ask.send(self.told(&done));
            }
            let why = done.err().unwrap_or_default();
            // What fails again for the same reason was said.
            if !why.is_empty() && (asked || why != told) {
                tracing::error!(%why, "the reload failed; the last good configuration stays");
            }
            told = why;
        }
        self.running.stop().await;
    }

    fn told(&self, done: &Result<Vec<String>, String>) -> ReloadResponse {
        let policies = self.prepared.policy_revision();
        ReloadResponse {
            applied: done.is_ok(),
            configuration: self.loaded.revision().to_owned(),
            policies: policies.map(ToString::to_string).unwrap_or_default(),
            problems: done
                .as_ref()
                .err()
                .iter()
                .flat_map(|why| why.lines())
                .map(Into::into)
                .collect(),
            ignored: done.clone().unwrap_or_default(),
        }
    }

    async fn print(&self) -> watch::Print {
        let files = self.files.clone();
        let print = tokio::task::spawn_blocking(move || watch::print(&files)).await;
        print.unwrap_or_else(|_| blake3::hash(b""))
    }

    /// One reload, whole or not at all. Says which values do nothing before the next start, or why
    /// it failed.
    async fn reload(&mut self) -> Result<Vec<String>, String> {
        let metrics = Arc::clone(&self.prepared.metrics);
        let result = match self.next().await {
            Ok(next) => self.keys_for(next).await,
            Err(refused) => Err(refused),
        };
        let refused = match result {
            Ok((next, running)) => {
                let ignored = self.swap(next, running).await;
                metrics.in_force.reload("ok");
                return Ok(ignored);
            }
            Err(refused) => refused,
        };
        if refused.passing {
            self.seen = None;
        }
        metrics.in_force.reload("failed");
        // Building may have shown keys that did not come into force.
        self.prepared.verifier.show(&metrics);
        self.live.parts.failed(self.prepared.clock.now(), short(&refused.why));
        Err(refused.why)
    }

    /// Builds what the files say, once they stay as they are.
    async fn next(&mut self) -> Result<Next, Refused> {
        for _ in 0..TRIES {
            let environment = Environment::of_process();
            let file = self.loaded.file().to_owned();
            let files = tokio::task::spawn_blocking(move || config::files(&file, &environment));
            self.files = files.await.unwrap_or_else(|_| std::mem::take(&mut self.files));
            let before = self.print().await;
            sleep(SETTLE).await;
            if self.print().await != before {
                continue;
            }
            let (current, file) = (Arc::clone(&self.prepared), self.loaded.file().to_owned());
            let built = tokio::task::spawn_blocking(move || build(&current, &file)).await;
            if self.print().await != before {
                continue;
            }
            self.seen = Some(before);
            let failed = |why: String| Refused { why, passing: false };
            return built.map_err(|_| failed("building it panicked".to_owned()))?.map_err(failed);
        }
        let why = "the files change while they are read".to_owned();
        Err(Refused { why, passing: true })
    }

    /// Starts the next one's background work and waits for keys that are new to it, so that no
    /// token that was good becomes *unavailable* for a reload.
    async fn keys_for(&self, next: Next) -> Result<(Next, Running), Refused> {
        let running = next.prepared.start();
        let verifier = &next.prepared.verifier;
        let waiting = async {
            while verifier.waits_for().is_some() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(KEYS, waiting).await.is_ok() {
            return Ok((next, running));
        }
        let issuer = verifier.waits_for().unwrap_or_default();
        running.stop().await;
        let why = format!("the keys of the issuer `{issuer}` could not be fetched");
        Err(Refused { why, passing: true })
    }

    async fn swap(&mut self, next: Next, running: Running) -> Vec<String> {
        let Next { loaded, prepared } = next;
        self.live.gate.know_reasons(prepared.reasons());
        self.live.journeys.swap(Arc::clone(&prepared.snapshot));
        self.live.certificates.swap(&prepared.secured);
        self.live.certificates.show(&prepared.metrics);
        self.live.parts.swap(prepared.told(&loaded));
        prepared.show(&loaded);
        let ignored = fixed::ignored(&self.first, &loaded);
        tracing::info!(
            configuration = loaded.revision(),
            policies = prepared.policy_revision().map_or("none", |revision| revision),
            "reloaded"
        );
        if !ignored.is_empty() {
            let names = ignored.join(", ");
            tracing::warn!(%names, "these values change only when the process starts again");
        }
        let notes = loaded.notes().to_string();
        if !notes.is_empty() {
            tracing::warn!(%notes, "odd, but it works");
        }
        self.loaded = Arc::new(loaded);
        self.prepared = Arc::new(prepared);
        std::mem::replace(&mut self.running, running).stop().await;
        ignored
    }
}

fn build(current: &Prepared, file: &Path) -> Result<Next, String> {
    let loaded = config::load_with(file, &Environment::of_process(), probe);
    let loaded = loaded.map_err(|report| report.to_string())?;
    let before = Some(current.verifier.as_ref());
    let prepared = prepare_on(&current.enduring, before, &loaded.config, loaded.base());
    match prepared {
        Ok(prepared) => Ok(Next { loaded, prepared }),
        Err(found) => Err(loaded.report(found).to_string()),
    }
}

/// The first line, cut; how many more there are.
fn short(why: &str) -> String {
    let first: String = why.lines().next().unwrap_or_default().chars().take(MAX_REASON).collect();
    match why.lines().count() {
        0 | 1 => first,
        lines => format!("{first} (and {} more lines in the log)", lines - 1),
    }
}

impl Prepared {
    /// What readiness tells of it, from now on.
    pub(super) fn told(&self, loaded: &Loaded) -> Told {
        Told {
            verifier: Arc::clone(&self.verifier),
            policies: self.policy_revision().cloned(),
            configuration: loaded.revision().into(),
            issuers: loaded.config.issuers.iter().map(|known| known.issuer.clone()).collect(),
            routes: loaded.config.routes.iter().map(|known| known.name.clone()).collect(),
            since: self.clock.now(),
            failed: None,
        }
    }

    /// Shows it in the metrics as what is in force.
    pub(super) fn show(&self, loaded: &Loaded) {
        let (in_force, now) = (&self.metrics.in_force, self.clock.now().unix_secs());
        in_force.policies(self.policy_revision().map(|revision| &**revision), now);
        in_force.configuration(loaded.revision(), now);
        self.verifier.show(&self.metrics);
    }
}
