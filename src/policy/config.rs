//! Section `policy`: which policies decide, and how long their decisions live.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::opa::OpaConfig;
use crate::model::{HumanDuration, HumanSize, Problem};

/// Section `policy`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// What evaluates the policies.
    #[serde(default)]
    pub engine: PolicyEngine,
    /// The OPA server, for `engine: opa`.
    #[serde(default)]
    pub opa: Option<OpaConfig>,
    /// Files or folders with the policies (`.rego`) and their data (`.json`), relative to this
    /// file. Of a folder everything below it is taken except tests (`_test.rego`) and hidden
    /// names; a JSON document is merged at the data path that its folder has within the
    /// configured folder, as `opa eval -d` does. With `engine: opa` they hold the mapping rule of
    /// the user context and may be left out.
    #[serde(default)]
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
    /// What one evaluation in this process may take; beyond, the answer is the denial
    /// `evaluation_limit`.
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
    /// An OPA server, asked over HTTP.
    Opa,
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
    /// CPU time of the evaluating thread. Elapsed time may be twenty times as much on a machine
    /// that has no more for it; then the answer is unavailable, `overloaded`, and no denial.
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
        match (self.engine, &self.opa) {
            (PolicyEngine::Embedded, Some(_)) => {
                let fix = "write `engine: opa`, or remove the section";
                wrong("/opa".into(), "has no effect on the embedded engine".into(), fix);
            }
            (PolicyEngine::Opa, None) => {
                let fix = "add `opa: { url: … }`";
                wrong("/opa".into(), "is missing".into(), fix);
            }
            _ => {}
        }
        if self.paths.is_empty() && self.engine == PolicyEngine::Embedded {
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
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            let sound = self.engine == PolicyEngine::Embedded
                || (entry.rule.chars().all(plain) && !entry.rule.split('.').any(str::is_empty));
            if !entry.rule.starts_with("data.") || !sound {
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
        let of_opa = self.opa.iter().flat_map(OpaConfig::problems);
        problems.extend(of_opa.map(|problem| problem.under("/opa")));
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
    #[test]
    fn s8_1_what_is_wrong_with_an_opa_server_is_named() {
        let of = |json: &str| {
            let found = config(json).problems().into_iter().map(|p| p.pointer);
            found.collect::<Vec<String>>()
        };
        let with = |engine: &str, rule: &str, opa: &str| {
            let points = format!(r#"[{{"name":"a","rule":"{rule}"}}]"#);
            of(&format!(r#"{{"engine":"{engine}","entry_points":{points}{opa}}}"#))
        };
        let opa = |text: &str| with("opa", "data.a.b", &format!(r#","opa":{{{text}}}"#));
        for sound in [
            r#""url":"http://127.0.0.1:8181""#,
            r#""url":"https://opa.test/under""#,
            r#""url":"unix:/run/opa.sock","on_failure":"stale","stale_for":"5m""#,
        ] {
            assert!(opa(sound).is_empty(), "{sound}: {:?}", opa(sound));
        }
        assert_eq!(opa(r#""url":"http://opa.test""#), ["/opa/url"]);
        assert_eq!(opa(r#""url":"unix:opa.sock""#), ["/opa/url"]);
        let all = r#""url":"https://o.test/?a=b","timeout":"0s","max_response":"0B",
            "max_in_flight":0,"token":" ","on_failure":"stale""#;
        let parts = ["url", "token", "timeout", "max_response", "max_in_flight", "stale_for"];
        assert_eq!(opa(all), parts.map(|part| format!("/opa/{part}")));
        assert_eq!(opa(r#""url":"https://o.test","stale_for":"5m""#), ["/opa/stale_for"]);
        let long = r#""url":"https://o.test","on_failure":"stale","stale_for":"25h""#;
        assert_eq!(opa(long), ["/opa/stale_for"]);
        assert_eq!(with("opa", "data.a.b", ""), ["/opa"]);
        let url = r#","opa":{"url":"https://o.test"}"#;
        assert_eq!(with("embedded", "data.a.b", url), ["/opa", "/paths"]);
        for rule in ["data.a[0]", "data.a..b", "data.a/b", "a.b", "data.a.b?x"] {
            assert_eq!(with("opa", rule, url), ["/entry_points/0/rule"], "{rule}");
        }
    }
}
