//! Alerts and dashboards ask for what a running binary serves, and promtool finds no fault.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use portcullis::model::Code;
use serde_json::{Value, json};

use super::exposed::Seen;
use super::promql::{self, Matcher};
use super::{drive, yaml};
use crate::harness::{Ask, Folder, Setup, files, found, root};

const RULES: &str = "deploy/alerts/portcullis.rules.yaml";
const TESTS: &str = "deploy/alerts/portcullis.test.yaml";
const BOARD: &str = "deploy/dashboards/portcullis.json";

/// What Prometheus itself adds.
const OWN: [&str; 2] = ["up", "ALERTS"];
const OWN_LABELS: [&str; 8] =
    ["job", "instance", "pod", "namespace", "alertname", "alertstate", "severity", "le"];

static PROMTOOL: LazyLock<std::path::PathBuf> = LazyLock::new(|| found("find_promtool"));

/// Runs promtool; what it says where it fails.
fn promtool(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(&*PROMTOOL)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() { Ok(text.concat()) } else { Err(text.concat()) }
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

/// Every query of the dashboard as an expression, with the labels that its legend shows.
fn queries(board: &Value) -> Vec<(String, Vec<&str>)> {
    let mut found = Vec::new();
    let plain = |text: &str| text.replace("$__rate_interval", "5m");
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let legend = templates(target["legendFormat"].as_str().unwrap());
            found.push((plain(target["expr"].as_str().unwrap()), legend));
        }
    }
    for annotation in board["annotations"]["list"].as_array().unwrap() {
        found.push((plain(annotation["expr"].as_str().unwrap()), Vec::new()));
    }
    for variable in board["templating"]["list"].as_array().unwrap() {
        let query = variable["definition"].as_str().unwrap_or_default();
        if let Some((metric, label)) =
            query.strip_prefix("label_values(").and_then(|q| q.rsplit_once(','))
        {
            found.push((metric.to_owned(), vec![label.trim_matches([' ', ')'])]));
        }
    }
    found
}

fn board(seen: &Seen, text: &str) -> Vec<String> {
    let board: Value = serde_json::from_str(text).unwrap();
    queries(&board).iter().flat_map(|(query, shown)| unknown(seen, query, shown)).collect()
}

#[test]
fn every_alert_asks_for_what_is_served() {
    assert_eq!(rules(drive::all(), &files::shipped(RULES)), Vec::<String>::new());
    assert_eq!(inputs(drive::all(), &files::shipped(TESTS)), Vec::<String>::new());
}

#[test]
fn every_panel_asks_for_what_is_served() {
    assert_eq!(board(drive::all(), &files::shipped(BOARD)), Vec::<String>::new());
}

/// What a dashboard must have for Grafana to show all of it.
fn layout(board: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if board["schemaVersion"].as_u64().is_none_or(|version| version < 36) {
        faults.push("schemaVersion".to_owned());
    }
    let variables: Vec<_> = board["templating"]["list"].as_array().unwrap().iter().collect();
    for name in ["datasource", "job", "instance"] {
        if !variables.iter().any(|variable| variable["name"] == name) {
            faults.push(format!("no variable {name}"));
        }
    }
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in board["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        if !ids.insert(panel["id"].as_u64().unwrap()) {
            faults.push(format!("{title}: the id of another"));
        }
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|at| panel["gridPos"][at].as_u64().unwrap());
        let free = (x..x + w).all(|x| (y..y + h).all(|y| cells.insert((x, y))));
        if x + w > 24 || !free {
            faults.push(format!("{title}: out of place"));
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().unwrap();
        for one in targets.iter().chain([panel]) {
            if one["datasource"]["uid"] != "${datasource}" {
                faults.push(format!("{title}: another data source"));
            }
        }
        let chosen = |target: &Value| {
            let (query, own) =
                (target["expr"].as_str().unwrap(), "job=~\"$job\",instance=~\"$instance\"");
            promql::names(query).metrics.len() == query.matches(own).count()
        };
        if targets.is_empty() || !targets.iter().all(chosen) {
            faults.push(format!("{title}: not of the replicas that are chosen"));
        }
    }
    faults
}

#[test]
fn the_dashboard_is_laid_out_for_grafana() {
    let text = files::shipped(BOARD);
    let faults = |text: &str| layout(&serde_json::from_str(text).unwrap());
    assert_eq!(faults(&text), Vec::<String>::new());
    for (from, to) in [
        ("\"id\": 3,", "\"id\": 2,"),
        ("\"x\": 12,", "\"x\": 13,"),
        ("\"uid\": \"${datasource}\"", "\"uid\": \"mine\""),
        ("process_open_fds{job=~\\\"$job\\\",", "process_open_fds{"),
        ("\"name\": \"instance\"", "\"name\": \"node\""),
        ("\"schemaVersion\": 39", "\"schemaVersion\": 9"),
    ] {
        assert!(!faults(&files::replace(&text, from, to)).is_empty(), "{from} -> {to}");
    }
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
    for (from, to) in [
        ("portcullis_cache_entries{", "portcullis_cache_entry{"),
        ("sum by (cache)", "sum by (caches)"),
        ("{{issuer}}", "{{isuer}}"),
        ("result=\\\"hit\\\"", "result=\\\"hits\\\""),
        ("portcullis_build_info, job", "portcullis_builds_info, job"),
    ] {
        let text = files::replace(&files::shipped(BOARD), from, to);
        assert!(!board(seen, &text).is_empty(), "{from} -> {to}");
    }
}

#[test]
fn promtool_accepts_alerts_and_queries() {
    let path = |file: &str| root().join(file).display().to_string();
    promtool(&["check", "rules", "--lint=all", "--lint-fatal", &path(RULES)], "").unwrap();
    promtool(&["test", "rules", &path(TESTS)], "").unwrap();
    // A query is an expression as a rule has one.
    let text = files::shipped(BOARD);
    let board: Value = serde_json::from_str(&text).unwrap();
    let rules: Vec<_> = queries(&board)
        .into_iter()
        .enumerate()
        .map(|(n, (query, _))| json!({ "record": format!("query:{n}"), "expr": query }))
        .collect();
    assert!(rules.len() > 40, "{}", rules.len());
    let folder = Folder::new();
    let check = |rules: &[Value]| {
        let text = json!({ "groups": [{ "name": "board", "rules": rules }] }).to_string();
        let file = folder.write("board.yaml", &text);
        promtool(&["check", "rules", &file.display().to_string()], "")
    };
    check(&rules).unwrap();
    let broken =
        json!({ "record": "query:x", "expr": "sum by (rate(portcullis_checks_total[5m])" });
    check(&[broken]).unwrap_err();
}

#[test]
fn an_alert_that_does_not_fire_or_fires_for_nothing_is_found() {
    let folder = Folder::new();
    let tests = folder.write("portcullis.test.yaml", &files::shipped(TESTS)).display().to_string();
    for (from, to) in [
        ("> 0.5", "> 0.9"),
        (
            "portcullis_config_last_reload_successful == 0",
            "portcullis_config_last_reload_successful >= 0",
        ),
        ("increase(portcullis_panics_total[15m]) > 0", "portcullis_panics_total > 0"),
        ("failed|timeout", "failed"),
        (",reason!=\"cancelled\"", ""),
        ("< 2 * 86400", "< 20 * 86400"),
    ] {
        folder.write("portcullis.rules.yaml", &files::replace(&files::shipped(RULES), from, to));
        let said = promtool(&["test", "rules", &tests], "").expect_err(from);
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

#[test]
fn the_metrics_are_well_formed_in_both_formats() {
    let world = Setup::quickstart().start();
    world.ask(Ask::get("/cwms-data/offices"));
    let classic = Ask::get("/metrics").header("accept", "text/plain").send(world.ports.admin);
    assert_eq!(classic.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = classic.text();
    assert!(text.contains("\n# TYPE portcullis_checks_total counter\n"), "{text}");
    promtool(&["check", "metrics"], &text).unwrap();
    promtool(&["check", "metrics"], &text.replace("# HELP", "# HALP")).unwrap_err();

    // As Prometheus asks, and read by its own parser, which wants a time for what it imports.
    let accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3";
    let open = Ask::get("/metrics").header("accept", accept).send(world.ports.admin);
    assert!(open.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    let folder = Folder::new();
    let import = |text: &str| {
        let timed = text.lines().map(|line| {
            let sample = !line.starts_with('#');
            let (line, exemplar) = line.split_once(" # {").filter(|_| sample).unwrap_or((line, ""));
            let exemplar =
                if exemplar.is_empty() { String::new() } else { format!(" # {{{exemplar}") };
            let time = if sample { " 1700000000" } else { "" };
            format!("{line}{time}{exemplar}\n")
        });
        let file = folder.write("metrics.txt", &timed.collect::<String>()).display().to_string();
        let out = folder.path().join("tsdb").display().to_string();
        promtool(&["tsdb", "create-blocks-from", "openmetrics", &file, &out], "")
    };
    import(&open.text()).unwrap();
    import(&open.text().replace("# EOF\n", "")).unwrap_err();
}
