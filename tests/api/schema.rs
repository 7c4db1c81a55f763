//! The description at `/openapi.json` and what the handlers do are one.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::world::{Api, KEY};
use crate::harness::{Ask, root};

/// The same questions in every run.
const SEED: &str = "20251130";
/// Questions for each operation.
const EXAMPLES: &str = "200";

/// Fetched once into the target folder.
fn schemathesis() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_portcullis"));
    let found = Command::new("bash")
        .args(["-c", "set -euo pipefail; . deploy/lib.sh; find_schemathesis"])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", binary.ancestors().nth(2).unwrap())
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

#[test]
fn the_description_has_the_configured_sets() {
    let api = Api::with(|text| {
        text.replace(
            "  realm: water-data\n  path:",
            "  resources: [levels, gates]\n  actions: { look: GET }\n  realm: water-data\n  path:",
        )
    });
    let answer = api.send(Ask::get("/openapi.json"));
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let question = &answer.json()["components"]["schemas"]["Question"]["properties"];
    assert_eq!(question["action"]["enum"], json!(["look"]));
    assert_eq!(question["resource"]["enum"], json!(["gates", "levels"]));
    assert_eq!(answer.json()["openapi"], "3.1.0");
}

#[test]
fn the_handlers_do_what_the_description_says() {
    let api = Api::start();
    let url = format!("http://127.0.0.1:{}/openapi.json", api.port);
    let folder = crate::harness::Folder::new();
    let output = Command::new(schemathesis())
        .args(["run", &url, "--checks", "all", "--seed", SEED, "--max-examples", EXAMPLES])
        .args(["--phases", "examples,coverage,fuzzing", "--no-color", "--warnings", "off"])
        .args(["--generation-database", "none", "--suppress-health-check", "all"])
        // It would add a bearer beside the key, and two credentials are 400 whatever the body.
        .args(["--generation-with-security-parameters", "false"])
        .args(["--header", &format!("x-api-key: {KEY}")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("2 selected / 2 total"), "{said}");
}
