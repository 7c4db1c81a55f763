//! The dashboard.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::exposed::Seen;
use super::super::{drive, promql};
use super::{promtool, templates, unknown};
use crate::harness::{Folder, files};

const BOARD: &str = "deploy/dashboards/portcullis.json";

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
fn every_panel_asks_for_what_is_served() {
    assert_eq!(board(drive::all(), &files::shipped(BOARD)), Vec::<String>::new());
}

#[test]
fn a_misspelt_metric_label_or_value_is_found() {
    let seen = drive::all();
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
fn promtool_accepts_every_query() {
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
        promtool::run(&["check", "rules", &file.display().to_string()], "")
    };
    check(&rules).unwrap();
    let broken =
        json!({ "record": "query:x", "expr": "sum by (rate(portcullis_checks_total[5m])" });
    check(&[broken]).unwrap_err();
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
