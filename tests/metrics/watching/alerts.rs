//! The rules of alerts and their tests.

use serde_json::Value;

use super::super::exposed::Seen;
use super::super::{drive, promql, yaml};
use super::{promtool, templates, unknown};
use crate::harness::{Folder, files, root};

const RULES: &str = "deploy/alerts/portcullis.rules.yaml";
const TESTS: &str = "deploy/alerts/portcullis.test.yaml";

/// Names of what is seen here only as an example.
const EXAMPLES: [&str; 6] = ["route", "reason", "issuer", "revision", "dependency", "version"];

/// Faults of the rules in `text`.
fn rules(seen: &Seen, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let file = yaml::parse(text);
    for rule in
        file["groups"].as_array().unwrap().iter().flat_map(|g| g["rules"].as_array().unwrap())
    {
        let annotations = rule["annotations"].as_object().unwrap();
        let shown = annotations.values().flat_map(|text| templates(text.as_str().unwrap()));
        let shown: Vec<_> =
            shown.filter_map(|word| word.strip_prefix("$labels.")?.split(' ').next()).collect();
        faults.extend(unknown(seen, rule["expr"].as_str().unwrap(), &shown));
        for name in ["summary", "runbook"] {
            if annotations.get(name).is_none_or(|text| text.as_str().unwrap().len() < 20) {
                faults.push(format!("{} has no {name}", rule["alert"]));
            }
        }
        if !["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap_or("")) {
            faults.push(format!("{} has no severity", rule["alert"]));
        }
    }
    faults
}

/// Faults of the series in the tests of alerts.
fn inputs(seen: &Seen, text: &str) -> Vec<String> {
    let file = yaml::parse(text);
    let tests = file["tests"].as_array().unwrap();
    let series = tests.iter().flat_map(|test| test["input_series"].as_array().unwrap());
    series
        .flat_map(|one| {
            let series = one["series"].as_str().unwrap();
            let mut faults = unknown(seen, series, &[]);
            faults.retain(|fault| {
                !EXAMPLES.iter().any(|label| fault.contains(&format!(" {label}=")))
            });
            // Which thresholds there are is part of what an alert on a histogram rests on.
            for (metric, matchers) in promql::names(series).metrics {
                let of = |name: &str| matchers.iter().find(|m| m.label == name);
                let known = seen.labels.get(&metric).and_then(|labels| labels.get("le"));
                if let (Some(le), Some(known)) = (of("le"), known)
                    && !known.contains(&le.value)
                {
                    faults.push(format!("{metric} has no le={}", le.value));
                }
            }
            faults
        })
        .collect()
}

fn texts<'v>(value: &'v Value, found: &mut Vec<(&'v str, &'v str)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| match value.as_str() {
            Some(text) => found.push((key, text)),
            None => texts(value, found),
        }),
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        _ => {}
    }
}

#[test]
fn every_alert_asks_for_what_is_served() {
    assert_eq!(rules(drive::all(), &files::shipped(RULES)), Vec::<String>::new());
    assert_eq!(inputs(drive::all(), &files::shipped(TESTS)), Vec::<String>::new());
}

#[test]
fn a_misspelt_metric_label_or_value_is_found() {
    let seen = drive::all();
    for (from, to) in [
        ("portcullis_checks_shed_total", "portcullis_checks_sched_total"),
        ("{stage=\"policy\"}", "{step=\"policy\"}"),
        ("{stage=\"policy\"}", "{stage=\"polices\"}"),
        ("failed|timeout", "failed|timed_out"),
        ("reason!=\"cancelled\"", "reason!=\"canceled\""),
        ("$labels.door", "$labels.doors"),
        ("pod, outcome, reason, route)", "pod, outcome, reason, rout)"),
        ("severity: critical", "severity: page"),
    ] {
        let text = files::replace(&files::shipped(RULES), from, to);
        assert!(!rules(seen, &text).is_empty(), "{from} -> {to}");
    }
    for (from, to) in [
        ("le=\"0.05\"", "le=\"0.07\""),
        ("portcullis_panics_total", "portcullis_panic_total"),
        ("outcome=\"unreachable\"", "outcome=\"away\""),
    ] {
        let text = files::replace(&files::shipped(TESTS), from, to);
        assert!(!inputs(seen, &text).is_empty(), "{from} -> {to}");
    }
}

#[test]
fn promtool_accepts_the_rules_and_each_fires_on_what_it_is_for() {
    let path = |file: &str| root().join(file).display().to_string();
    promtool::run(&["check", "rules", "--lint=all", "--lint-fatal", &path(RULES)], "").unwrap();
    promtool::run(&["test", "rules", &path(TESTS)], "").unwrap();
}

#[test]
fn an_alert_that_does_not_fire_or_fires_for_nothing_is_found() {
    let folder = Folder::new();
    let tests = folder.write("portcullis.test.yaml", &files::shipped(TESTS)).display().to_string();
    let run = |test: &str| {
        let test = format!("--run=^{test}$");
        promtool::run(&["test", "rules", &test, &tests], "")
    };
    for (test, from, to) in [
        ("latency over the critical", "> 0.5", "> 0.9"),
        (
            "all is well",
            "portcullis_config_last_reload_successful == 0",
            "portcullis_config_last_reload_successful >= 0",
        ),
        (
            "all is well",
            "increase(portcullis_panics_total[15m]) > 0",
            "portcullis_panics_total > 0",
        ),
        ("a dependency is down, timeout", "failed|timeout", "failed"),
        ("denials and callers that went away are no errors", ",reason!=\"cancelled\"", ""),
        ("a certificate ends in ten days", "< 2 * 86400", "< 20 * 86400"),
    ] {
        let shipped = files::shipped(RULES);
        folder.write("portcullis.rules.yaml", &shipped);
        run(test).expect(test);
        folder.write("portcullis.rules.yaml", &files::replace(&shipped, from, to));
        let said = run(test).expect_err(from);
        assert!(said.contains("FAILED"), "{from}: {said}");
    }
}

#[test]
fn every_alert_has_a_test_and_is_told_of() {
    let (rules, tests) = (yaml::parse(&files::shipped(RULES)), yaml::parse(&files::shipped(TESTS)));
    let mut expected = Vec::new();
    let mut healthy = String::new();
    for test in tests["tests"].as_array().unwrap() {
        texts(&test["promql_expr_test"], &mut expected);
        if test["name"] == "all is well" {
            healthy = test["input_series"].to_string();
        }
    }
    let told = files::shipped("deploy/alerts/README.md");
    for rule in
        rules["groups"].as_array().unwrap().iter().flat_map(|g| g["rules"].as_array().unwrap())
    {
        let (alert, severity) = (&rule["alert"], rule["labels"]["severity"].as_str().unwrap());
        let alert = alert.as_str().unwrap();
        let labels = format!("{{alertname=\"{alert}\",severity=\"{severity}\"}}");
        assert!(expected.iter().any(|(key, text)| *key == "labels" && *text == labels), "{labels}");
        assert!(told.contains(&format!("`{alert}`")), "{alert}");
        for (metric, _) in promql::names(rule["expr"].as_str().unwrap()).metrics {
            assert!(healthy.contains(&format!("\"{metric}{{")), "{alert}: {metric}");
        }
    }
}
