//! The queue and the thread that empties it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::config::AuditConfig;
use super::encode::{push_broken_line_marker, push_line};
use super::event::{Event, SubjectHash};
use super::file::Directory;
use crate::model::VerifiedToken;
use crate::telemetry::Metrics;

/// After a batch the thread rests this long, so that the next batch is one write and Checks
/// rarely have to wake it.
const REST: Duration = Duration::from_millis(10);
/// A batch is written when its text is this long, however many events wait.
const BATCH_BYTES: usize = 256 * 1024;

/// Why audit could not start.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The directory cannot be made or read.
    #[error("audit.directory {path}: {source}")]
    Directory {
        /// The directory.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("cannot start the audit thread: {0}")]
    Thread(io::Error),
    /// The system gives no random bytes for the subjects' key.
    #[error("no random key for subjects: {0}")]
    Random(String),
}

/// The handle that Checks hold. Emitting never waits.
#[derive(Clone)]
pub struct Audit(Arc<Shared>);

struct Shared {
    queue: SyncSender<Job>,
    key: [u8; 32],
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

enum Job {
    Write(Box<Event>),
    Flush(SyncSender<()>),
}

/// Where lines go.
pub(super) enum Target {
    /// One stream, such as standard output.
    Stream(Box<dyn Write + Send>),
    /// Files by date.
    Files(Directory),
}

impl Audit {
    /// Opens the sink and starts its thread. `base` is what a relative directory is relative to.
    ///
    /// # Errors
    /// If the directory cannot be used, or the system gives no thread or no random bytes.
    pub fn start(
        config: &AuditConfig,
        base: &Path,
        metrics: Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let target = match &config.directory {
            None => Target::Stream(Box::new(io::stdout())),
            Some(directory) => {
                let path = base.join(directory);
                let open = Directory::new(&path);
                Target::Files(open.map_err(|source| AuditError::Directory {
                    path: path.display().to_string(),
                    source,
                })?)
            }
        };
        let key = if let Some(key) = &config.subject_key {
            blake3::derive_key("portcullis audit subject", key.expose().trim().as_bytes())
        } else {
            tracing::info!("audit.subject_key is not set: subjects' hashes are of this run only");
            random_key()?
        };
        Self::with_target(target, config.queue, key, metrics)
    }

    /// Writes to `stream`; for tests and for `decide`.
    ///
    /// # Errors
    /// If the system gives no thread or no random bytes.
    pub fn to_stream(
        stream: Box<dyn Write + Send>,
        queue: usize,
        metrics: Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        Self::with_target(Target::Stream(stream), queue, random_key()?, metrics)
    }

    fn with_target(
        target: Target,
        queue: usize,
        key: [u8; 32],
        metrics: Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let (sender, receiver) = sync_channel(queue);
        let writer = Writer {
            target,
            metrics: metrics.clone(),
            text: String::new(),
            pending: 0,
            date: String::new(),
            cut: false,
            failing: false,
        };
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(AuditError::Thread)?;
        Ok(Self(Arc::new(Shared { queue: sender, key, metrics })))
    }

    /// The hash that stands for whom `token` names in audit and metadata; made once for each
    /// token, as a process has one key.
    #[must_use]
    pub fn subject_hash(&self, token: &VerifiedToken) -> SubjectHash {
        let hash = || SubjectHash::new(&self.0.key, &token.grant.issuer, &token.subject).0;
        SubjectHash(token.pseudonym(hash))
    }

    /// Queues one event; a full queue drops and counts it.
    pub fn emit(&self, event: Event) {
        match self.0.queue.try_send(Job::Write(Box::new(event))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.0.metrics.audit_dropped.inc();
            }
        }
    }

    /// Waits until everything emitted before is written, or until `deadline`; blocks the thread.
    /// Says whether all of it was handed to the sink.
    #[must_use]
    pub fn flush(&self, deadline: Instant) -> bool {
        let (done, wait) = sync_channel(1);
        let mut job = Job::Flush(done);
        loop {
            match self.0.queue.try_send(job) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => job = back,
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        wait.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }
}

fn random_key() -> Result<[u8; 32], AuditError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| AuditError::Random(error.to_string()))?;
    Ok(key)
}

struct Writer {
    target: Target,
    metrics: Arc<Metrics>,
    /// Encoded lines that wait to be written, all of one date.
    text: String,
    /// How many they are.
    pending: u64,
    date: String,
    /// The sink's last line has no newline.
    cut: bool,
    /// The last write failed; only a change is logged.
    failing: bool,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            let mut flushes = Vec::new();
            self.take(job, &mut flushes);
            while let Ok(job) = queue.try_recv() {
                self.take(job, &mut flushes);
            }
            self.write();
            if flushes.is_empty() {
                std::thread::sleep(REST);
            } else {
                self.sync();
                for done in flushes {
                    let _ = done.try_send(());
                }
            }
        }
        self.sync();
    }

    fn take(&mut self, job: Job, flushes: &mut Vec<SyncSender<()>>) {
        match job {
            Job::Flush(done) => flushes.push(done),
            Job::Write(event) => {
                let time = event.at.rfc3339();
                let date = time.get(..10).unwrap_or_default();
                if date != self.date {
                    self.write();
                    date.clone_into(&mut self.date);
                }
                push_line(&mut self.text, &event);
                self.pending += 1;
                if self.text.len() >= BATCH_BYTES {
                    self.write();
                }
            }
        }
    }

    /// Writes what waits. What the sink does not take is lost and counted: the queue behind it
    /// is bounded, and a Check never waits for a disk.
    fn write(&mut self) {
        if self.pending == 0 {
            return;
        }
        let (taken, result) = self.write_text();
        let written = if taken == self.text.len() {
            self.pending
        } else {
            let whole = self.text.as_bytes().get(..taken).unwrap_or_default();
            whole.split(|b| *b == b'\n').skip(1).count() as u64
        };
        self.metrics.audit_written.inc_by(written.min(self.pending));
        self.metrics.audit_failed.inc_by(self.pending.saturating_sub(written));
        self.note(result);
        self.pending = 0;
        self.text.clear();
        self.text.shrink_to(BATCH_BYTES);
    }

    /// How many bytes of the text were written, and why no more.
    fn write_text(&mut self) -> (usize, io::Result<()>) {
        let stream: &mut dyn Write = match &mut self.target {
            Target::Stream(stream) => stream,
            Target::Files(files) => match files.file(&self.date) {
                Err(error) => return (0, Err(error)),
                Ok((file, cut)) => {
                    self.cut |= cut;
                    file
                }
            },
        };
        if self.cut {
            let mut repair = "\n".to_owned();
            push_broken_line_marker(&mut repair);
            let (taken, result) = write_counted(stream, repair.as_bytes());
            if result.is_err() {
                // Even the newline alone would do; the marker is tried again.
                self.cut = taken != repair.len();
                return (0, result);
            }
            self.cut = false;
        }
        let (taken, result) = write_counted(stream, self.text.as_bytes());
        let ended = taken == 0 || self.text.as_bytes().get(taken - 1) == Some(&b'\n');
        self.cut = !ended;
        (taken, result.and_then(|()| stream.flush()))
    }

    fn sync(&mut self) {
        let result = match &mut self.target {
            Target::Stream(stream) => stream.flush(),
            Target::Files(files) => files.sync(),
        };
        if result.is_err() {
            self.note(result);
        }
    }

    /// Logs when the sink starts to fail and when it works again.
    fn note(&mut self, result: io::Result<()>) {
        match result {
            Err(error) => {
                if !self.failing {
                    tracing::error!(%error, "audit events are being lost: the sink fails");
                }
                self.failing = true;
                if let Target::Files(files) = &mut self.target {
                    files.close();
                }
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::warn!("the audit sink works again");
            }
            Ok(()) => {}
        }
    }
}

/// Like `write_all`, but tells how far it came.
fn write_counted(stream: &mut dyn Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => taken += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}
