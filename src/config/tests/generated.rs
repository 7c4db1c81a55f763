//! Schema and reference are committed where people look for them, equal to what the types say.

use std::path::Path;

use crate::config::{reference_markdown, schema_json};

fn committed(name: &str, generated: &str, command: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/config").join(name);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed.trim_end() == generated.trim_end(),
        "deploy/config/{name} is not what the types say now; write it again with\n  \
         cargo run -- {command} > deploy/config/{name}"
    );
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    committed("portcullis.schema.json", &schema_json().unwrap(), "schema");
}

#[test]
fn the_committed_reference_is_that_of_the_types() {
    committed("reference.md", &reference_markdown().unwrap(), "config-reference");
}

#[test]
fn every_key_is_described() {
    let reference = reference_markdown().unwrap();
    let bare: Vec<&str> = reference.lines().filter(|line| line.ends_with("|  |")).collect();
    assert!(bare.is_empty(), "keys without a doc comment:\n{}", bare.join("\n"));
}

#[test]
fn a05_secrets_are_marked_and_nothing_may_be_null() {
    let schema = schema_json().unwrap();
    assert!(schema.contains("\"writeOnly\": true"), "no secret is marked");
    assert!(!schema.contains("\"null\""), "null is a value somewhere");
}
