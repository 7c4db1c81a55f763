//! Section `runtime`: what concerns the process rather than a stage.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::Problem;

/// Most worker threads that make sense to ask for.
const MAX_THREADS: u16 = 512;

/// The asynchronous runtime.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeConfig {
    /// Worker threads; one for each core where this is left out.
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
