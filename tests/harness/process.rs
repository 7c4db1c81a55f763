//! Child processes that do not outlive their test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running program; killed when dropped. Its output is in a file and in failure messages.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `dir/<name>.log`.
    pub(crate) fn start(name: &'static str, dir: &Path, command: &mut Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        Self { name, child, log }
    }

    /// Waits until `ready`; fails with the output when the program ends before, or after 15 s.
    pub(crate) fn wait_for(&mut self, ready: impl Fn() -> bool) {
        let start = Instant::now();
        while !ready() {
            let ended = self.child.try_wait().unwrap();
            let late = start.elapsed() > Duration::from_secs(15);
            assert!(ended.is_none() && !late, "{} is not ready:\n{}", self.name, self.output());
            sleep(Duration::from_millis(10));
        }
    }

    /// What it has written so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// What it holds in memory now, KiB; 0 once it has ended.
    pub(crate) fn resident_kib(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(status.success(), "{} could not be signalled", self.name);
    }

    /// Waits for its end, `limit` at most.
    pub(crate) fn ended(&mut self, limit: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < limit, "{} runs on:\n{}", self.name, self.output());
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            // The harness shows it with the failed test.
            eprintln!("--- {}\n{}", self.name, self.output());
        }
    }
}
