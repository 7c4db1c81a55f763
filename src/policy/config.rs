//! Section `policy`: which policies decide, and how long their decisions live.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{HumanDuration, HumanSize, Problem};

/// Section `policy`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// What evaluates the policies.
    #[serde(default)]
    pub engine: PolicyEngine,
    /// Files or folders with the policies (`.rego`) and their data (`.json`), relative to this
    /// file. Of a folder everything below it is taken except tests (`_test.rego`) and hidden
    /// names; a JSON document is merged at the data path that its folder has within the
    /// configured folder, as `opa eval -d` does.
    pub paths: Vec<PathBuf>,
    /// The rules that routes may name.
    pub entry_points: Vec<EntryPointConfig>,
    /// Memory for cached decisions.
    #[serde(default = "default_cache")]
    pub cache: HumanSize,
    /// Longest lifetime of a decision, and the lifetime of one that gives no `ttl` of its own.
    #[serde(default = "default_ttl")]
    pub ttl: HumanDuration,
    /// Longest lifetime of a decision that reads the time and gives no `ttl` of its own.
    #[serde(default = "default_clock_ttl")]
    pub clock_ttl: HumanDuration,
    /// What one evaluation may take; beyond, the answer is the denial `evaluation_limit`.
    #[serde(default)]
    pub limits: EvaluationLimits,
}

/// What evaluates the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyEngine {
    /// The interpreter inside this process.
    #[default]
    Embedded,
}

/// A rule that routes may name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryPointConfig {
    /// The name by which routes refer to it.
    pub name: String,
    /// The rule, such as `data.acme.authz.decision`.
    pub rule: String,
    /// Whether the rule reads the time: then the input has `context.time` (RFC 3339) and
    /// `context.time_ns`, and a decision without `ttl` lives for `clock_ttl` only.
    #[serde(default)]
    pub reads_time: bool,
}

/// What one evaluation may take.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationLimits {
    /// Elapsed time.
    pub time: HumanDuration,
    /// Memory: input, what built-in functions produce, and result, summed up.
    pub memory: HumanSize,
}

impl Default for EvaluationLimits {
    fn default() -> Self {
        Self { time: HumanDuration::millis(50), memory: HumanSize(64 << 20) }
    }
}

fn default_cache() -> HumanSize {
    HumanSize(64 << 20)
}

fn default_ttl() -> HumanDuration {
    HumanDuration::secs(300)
}

fn default_clock_ttl() -> HumanDuration {
    HumanDuration::secs(1)
}

impl PolicyConfig {
    /// What is wrong with the values themselves; [`Bundle`](crate::rego::Bundle) and
    /// [`Embedded`](super::Embedded) find what is wrong with the policies.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |pointer: String, message: String, fix: &str| {
            problems.push(Problem::new(pointer, message, fix));
        };
        if self.paths.is_empty() {
            wrong("/paths".into(), "no policies are named".into(), "name files or folders");
        }
        if self.entry_points.is_empty() {
            let fix = "add `{ name: main, rule: data.<package>.<rule> }`";
            wrong("/entry_points".into(), "no entry point is named".into(), fix);
        }
        let mut names = BTreeSet::new();
        for (index, entry) in self.entry_points.iter().enumerate() {
            let at = |field: &str| format!("/entry_points/{index}/{field}");
            if entry.name.is_empty() {
                wrong(at("name"), "the name is empty".into(), "give it a name");
            } else if !names.insert(&entry.name) {
                let message = format!("two entry points are named `{}`", entry.name);
                wrong(at("name"), message, "give each a name of its own");
            }
            if !entry.rule.starts_with("data.") {
                let message = format!("`{}` is no path of a rule", entry.rule);
                wrong(at("rule"), message, "write `data.<package>.<rule>`");
            }
        }
        if self.limits.time.0.is_zero() {
            let message = format!("`{}` lets no evaluation finish", self.limits.time);
            wrong("/limits/time".into(), message, "write for example `50ms`");
        }
        if self.limits.memory.0 < 64 << 10 || self.limits.memory.0 > 4 << 30 {
            let message = format!("`{}` is not between 64KiB and 4GiB", self.limits.memory);
            wrong("/limits/memory".into(), message, "write for example `64MiB`");
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> PolicyConfig {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let config = config(r#"{"paths":["p"],"entry_points":[{"name":"a","rule":"data.a.b"}]}"#);
        assert!(config.problems().is_empty());
        assert_eq!(config.ttl, HumanDuration::secs(300));
        assert_eq!(config.clock_ttl, HumanDuration::secs(1));
        assert_eq!(config.limits.time, HumanDuration::millis(50));
        assert!(!config.entry_points[0].reads_time);
    }

    #[test]
    fn every_problem_is_named_with_its_pointer() {
        let config = config(
            r#"{"paths":[],"entry_points":[{"name":"a","rule":"b"},{"name":"a","rule":"data.x"},
                {"name":"","rule":"data.x"}],"limits":{"time":"0ms","memory":"1KiB"}}"#,
        );
        let pointers: Vec<String> = config.problems().into_iter().map(|p| p.pointer).collect();
        let expected = [
            "/paths",
            "/entry_points/0/rule",
            "/entry_points/1/name",
            "/entry_points/2/name",
            "/limits/time",
            "/limits/memory",
        ];
        assert_eq!(pointers, expected);
    }
}
