//! The embedded engine answers as OPA does.
//!
//! `policies/` and `cases.json` are the questions; `answers.json` holds what a real OPA said.
//! One test compares our answers with the file, another makes the file again from OPA.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use portcullis::rego::{Bundle, EvalError, Limits};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{Ask, Folder, Opa, opa, port};

const LIMITS: Limits = Limits { time: Duration::from_secs(10), memory: 64 << 20 };

/// One package's rules on several inputs.
#[derive(Deserialize)]
struct Case {
    package: String,
    /// Every rule of the package's file where it names none.
    #[serde(default)]
    rules: Vec<String>,
    inputs: Vec<Value>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// Names at the start of a line, up to what ends a rule's name.
fn rules_of(package: &str) -> Vec<String> {
    let text = read(&format!("policies/{package}.rego"));
    let mut names: Vec<String> = text
        .lines()
        .map(|line| line.strip_prefix("default ").unwrap_or(line))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter(|line| !line.starts_with("package "))
        .filter_map(|line| line.split_once([' ', '[', '.', '(']).map(|(name, _)| (name, line)))
        // A function, or a rule whose name goes on: neither is an entry point.
        .filter(|(name, line)| !line.trim_start_matches(name).starts_with(['(', '.']))
        .map(|(name, _)| name.to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Each question: its name, the rule's path, and the input.
fn questions() -> Vec<(String, String, Value)> {
    let cases: Vec<Case> = serde_json::from_str(&read("cases.json")).unwrap();
    let mut questions = Vec::new();
    for case in cases {
        let rules = if case.rules.is_empty() { rules_of(&case.package) } else { case.rules };
        for (index, input) in case.inputs.iter().enumerate() {
            for rule in &rules {
                let path = format!("data.golden.{}.{rule}", case.package);
                questions.push((format!("{}.{rule} #{index}", case.package), path, input.clone()));
            }
        }
    }
    questions
}

/// `[value]`, or `undefined`, or `error`.
fn ours() -> BTreeMap<String, Value> {
    let bundle = Bundle::load(&[PathBuf::from("policies")], &folder()).unwrap();
    let answer = |path: &str, input: &Value| match bundle.rule(path, true) {
        // What is missing is found at load; OPA says undefined.
        Err(_) => json!("undefined"),
        Ok(rule) => match rule.eval(&input.to_string(), LIMITS) {
            Ok(Some(value)) => json!([value]),
            Ok(None) => json!("undefined"),
            Err(EvalError::Failed(_)) => json!("error"),
            Err(other) => json!(other.to_string()),
        },
    };
    questions().iter().map(|(name, path, input)| (name.clone(), answer(path, input))).collect()
}

fn opas() -> BTreeMap<String, Value> {
    let opa = opa::binary();
    let ask = |(name, path, input): &(String, String, Value)| {
        let file = std::env::temp_dir().join(format!(
            "golden-{}-{}.json",
            std::process::id(),
            name.replace([' ', '#', '.'], "_")
        ));
        std::fs::write(&file, input.to_string()).unwrap();
        let output = Command::new(&opa)
            .args(["eval", "--format", "json", "-d"])
            .arg(folder().join("policies"))
            .arg("-i")
            .args([file.as_os_str(), path.as_ref()])
            .output()
            .unwrap();
        std::fs::remove_file(file).unwrap();
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{name}: {e}: {}", String::from_utf8_lossy(&output.stderr)));
        let answer = match (said.pointer("/result/0/expressions/0/value"), said.get("errors")) {
            (Some(value), _) => json!([value]),
            (None, None) => json!("undefined"),
            (None, Some(_)) => json!("error"),
        };
        (name.clone(), answer)
    };
    let questions = questions();
    let (left, right) = questions.split_at(questions.len() / 2);
    std::thread::scope(|scope| {
        let left = scope.spawn(|| left.iter().map(ask).collect::<Vec<_>>());
        let right = right.iter().map(ask).collect::<Vec<_>>();
        left.join().unwrap().into_iter().chain(right).collect()
    })
}

fn committed() -> BTreeMap<String, Value> {
    serde_json::from_str(&read("answers.json")).unwrap()
}

/// Equal; fractions as doubles, because OPA keeps how they were written (`1.50`).
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let whole =
                |n: &serde_json::Number| n.to_string().bytes().all(|c| c != b'.' && c != b'e');
            a == b || (!(whole(a) && whole(b)) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// What differs, one line each.
fn differences(a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    names
        .into_iter()
        .filter(|name| !a.get(*name).zip(b.get(*name)).is_some_and(|(a, b)| same(a, b)))
        .map(|name| format!("{name}: {} against {}", show(a.get(name)), show(b.get(name))))
        .collect()
}

#[test]
fn r01_our_answers_are_opas() {
    let differences = differences(&ours(), &committed());
    assert!(differences.is_empty(), "ours against OPA's:\n{}", differences.join("\n"));
}

#[test]
fn s10_4_the_golden_answers_are_made_again_from_opa() {
    let differences = differences(&opas(), &committed());
    assert!(
        differences.is_empty(),
        "OPA's against the file (`cargo test write_golden_answers -- --ignored` writes it):\n{}",
        differences.join("\n")
    );
}

#[test]
fn r01_an_opa_server_gives_the_golden_answers_too() {
    let scratch = Folder::new();
    let server = Opa::start(port(), scratch.path(), &[&folder().join("policies")]);
    let ask = |(name, path, input): (String, String, Value)| {
        let path = path.replacen("data.", "/v1/data/", 1).replace('.', "/");
        let body = json!({"input": input}).to_string();
        let answer = Ask::new("POST", &path).body(body).send(server.port);
        let said = match (answer.status, answer.json().get("result")) {
            (200, Some(value)) => json!([value]),
            (200, None) => json!("undefined"),
            _ => json!("error"),
        };
        (name, said)
    };
    let answers = questions().into_iter().map(ask).collect();
    let differences = differences(&answers, &committed());
    assert!(differences.is_empty(), "a server's against the file:\n{}", differences.join("\n"));
}

#[test]
fn s10_3_a_planted_difference_is_found() {
    let mut planted = committed();
    planted.insert("undefined.chain #0".to_owned(), json!([4]));
    assert_eq!(differences(&ours(), &planted).len(), 1);
}

#[test]
#[ignore = "writes answers.json from the OPA at hand"]
fn write_golden_answers() {
    let text = serde_json::to_string_pretty(&opas()).unwrap();
    std::fs::write(folder().join("answers.json"), text + "\n").unwrap();
}
