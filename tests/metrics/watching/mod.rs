//! Alerts and dashboards ask for what a running binary serves, and promtool finds no fault.

mod alerts;
mod board;
mod formats;
mod promtool;

use std::collections::BTreeSet;

use portcullis::model::Code;

use super::exposed::Seen;
use super::promql::{self, Matcher};

/// What Prometheus itself adds.
const OWN: [&str; 2] = ["up", "ALERTS"];
const OWN_LABELS: [&str; 8] =
    ["job", "instance", "pod", "namespace", "alertname", "alertstate", "severity", "le"];

/// Words between `{{` and `}}`.
fn templates(text: &str) -> Vec<&str> {
    text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.trim())).collect()
}

/// What `expression` names and the binary does not serve; `shown` are labels of the result.
fn unknown(seen: &Seen, expression: &str, shown: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let names = promql::names(expression);
    if names.metrics.is_empty() {
        faults.push(format!("no metric in {expression}"));
    }
    let mut labels: BTreeSet<&str> = OWN_LABELS.into();
    for (metric, matchers) in &names.metrics {
        let Some(known) = seen.labels.get(metric) else {
            if !OWN.contains(&metric.as_str()) {
                faults.push(format!("no metric {metric}: {expression}"));
            }
            continue;
        };
        labels.extend(known.keys().map(String::as_str));
        for matcher in matchers.iter().filter(|m| !OWN_LABELS.contains(&m.label.as_str())) {
            match known.get(&matcher.label) {
                None => faults.push(format!("{metric} has no label {}", matcher.label)),
                Some(values) => faults.extend(values_unknown(metric, matcher, values)),
            }
        }
    }
    let asked = names.labels.iter().map(String::as_str).chain(shown.iter().copied());
    let missing = asked.filter(|label| !labels.contains(label));
    faults.extend(missing.map(|label| format!("no label {label}: {expression}")));
    faults
}

fn values_unknown(metric: &str, matcher: &Matcher, values: &BTreeSet<String>) -> Vec<String> {
    let literal =
        |value: &&str| value.chars().all(|c| c.is_ascii_alphanumeric() || "_-+.".contains(c));
    let exact = matcher.operator == "=" || matcher.operator == "!=";
    let asked: Vec<&str> =
        if exact { vec![&matcher.value] } else { matcher.value.split('|').collect() };
    let core = |value: &str| {
        matcher.label == "reason" && Code::ALL.iter().any(|code| code.as_str() == value)
    };
    let strange = asked.into_iter().filter(|value| exact || literal(value));
    let strange = strange.filter(|value| !values.contains(*value) && !core(value));
    strange.map(|value| format!("{metric} has no {}={value}", matcher.label)).collect()
}
