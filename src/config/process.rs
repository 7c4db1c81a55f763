//! Section `runtime`: what concerns the process rather than a stage.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{HumanDuration, Problem};

/// Most worker threads that make sense to ask for.
const MAX_THREADS: u16 = 512;

/// How a change of the configuration and of the files that it names is noticed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReloadConfig {
    /// How often the content of the configuration file, of the policies and of every other file
    /// that the configuration names is looked at; `0s`: only when SIGHUP comes.
    pub interval: HumanDuration,
}

impl Default for ReloadConfig {
    fn default() -> Self {
        Self { interval: HumanDuration::secs(5) }
    }
}

impl ReloadConfig {
    /// Everything that is wrong with the section; pointers are relative to it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let interval = self.interval;
        let range = Duration::from_millis(50)..=Duration::from_hours(24);
        let fine = interval.0.is_zero() || range.contains(&interval.0);
        let fix = "write 50ms to 24h, or 0s to reload only when SIGHUP comes";
        let text = format!("`{interval}` is out of range");
        if fine { Vec::new() } else { vec![Problem::new("/interval", text, fix)] }
    }
}

/// The asynchronous runtime.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeConfig {
    /// Threads that serve Checks, each the connections of its own, and as many for everything else;
    /// one for each core where this is left out.
    pub threads: Option<u16>,
}

impl RuntimeConfig {
    /// Everything that is wrong with the section; pointers are relative to it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let wrong = self.threads.filter(|threads| !(1..=MAX_THREADS).contains(threads));
        let problem = |threads: u16| {
            let fix = format!("write 1 to {MAX_THREADS}, or leave the key out");
            Problem::new("/threads", format!("`{threads}` is out of range"), fix)
        };
        wrong.map(problem).into_iter().collect()
    }
}
