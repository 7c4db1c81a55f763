//! The table of target spellings in `envoy/README.md`, held against a real Envoy.

use std::collections::BTreeMap;

use crate::harness::{Ask, Setup, files};

/// A row: the target, and what Envoy does with it by the settings of the files.
fn rows() -> Vec<(String, String)> {
    let text = files::shipped("envoy/README.md");
    let table = text.split("| target |").nth(1).expect("the table");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let target = cells.first()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        Some((target, (*cells.get(3)?).to_owned()))
    };
    table
        .lines()
        .skip(2)
        .map_while(|line| line.starts_with('|').then(|| row(line)))
        .flatten()
        .collect()
}

#[test]
fn s1_1_the_table_says_what_envoy_does() {
    let on = "transport_api_version: V3\n";
    let off = "transport_api_version: V3\n              filter_enabled: { default_value: { numerator: 0 } }\n";
    let world = Setup::quickstart().without_portcullis().envoy(on, off).start();
    let rows = rows();
    assert!(rows.len() > 30, "{rows:?}");
    let mut wrong = BTreeMap::new();
    for (target, says) in rows {
        let answer = world.ask(Ask::get(&target));
        let does = match answer.status {
            200 if answer.json()["target"] == target.as_str() => "passes",
            200 => "rewrites",
            400 => "refuses",
            _ => panic!("{target}: {answer:?}"),
        };
        if does != says {
            wrong.insert(target, format!("says {says}, does {does}: {}", answer.text()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
