//! The `audit` section.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{Problem, Secret};

/// Where audit events go.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// `stdout`; leave it out where `directory` is given.
    pub sink: Option<Sink>,
    /// Directory for files named `YYYY-MM-DD.ndjson`, by the date of the event in UTC.
    pub directory: Option<PathBuf>,
    /// Events that may wait to be written; more are dropped and counted.
    pub queue: usize,
    /// Key of the hash that stands for subjects, at least 32 bytes. Without it the process makes
    /// one up: hashes of two runs or two replicas then differ.
    pub subject_key: Option<Secret<String>>,
    /// File that holds `subject_key`.
    pub subject_key_file: Option<PathBuf>,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { sink: None, directory: None, queue: 8192, subject_key: None, subject_key_file: None }
    }
}

/// A sink that needs no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sink {
    /// Standard output, one JSON line per Check.
    Stdout,
}

impl AuditConfig {
    /// Every problem that shows without opening anything.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.sink.is_some() && self.directory.is_some() {
            let text = "`sink: stdout` and `directory` are both given";
            problems.push(Problem::new("/sink", text, "keep one of the two"));
        }
        if !(16..=1_048_576).contains(&self.queue) {
            let text = format!("`{}` is out of range", self.queue);
            problems.push(Problem::new("/queue", text, "write 16 to 1048576"));
        }
        if self.subject_key.as_ref().is_some_and(|key| key.expose().trim().len() < 32) {
            let fix = "write at least 32 characters, such as the output of `openssl rand -hex 32`";
            problems.push(Problem::new("/subject_key", "the key is too short", fix));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sink_a_sane_queue_and_a_long_key() {
        assert_eq!(AuditConfig::default().problems(), []);
        let bad = AuditConfig {
            sink: Some(Sink::Stdout),
            directory: Some("/var/log/audit".into()),
            queue: 0,
            subject_key: Some(Secret::new("short".to_owned())),
            subject_key_file: None,
        };
        let pointers: Vec<_> = bad.problems().into_iter().map(|p| p.pointer).collect();
        assert_eq!(pointers, ["/sink", "/queue", "/subject_key"]);
    }
}
