//! The subcommands as people run them: what they print and their exit statuses.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::files::{self, Folder, Ports};
use crate::harness::{Ask, Process, Token, port, tokens};

const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// A folder with keys and this configuration of the quickstart.
fn configured(change: impl Fn(&str) -> String) -> Folder {
    let folder = Folder::new();
    tokens::write_keys(folder.path());
    // Nobody listens there: the user API is unreachable.
    let backend = port();
    let ports = Ports { envoy: 1, envoy_admin: 1, check: port(), admin: port(), backend };
    let text = files::shipped("deploy/config/quickstart.yaml");
    folder.write("portcullis.yaml", &change(&files::portcullis(&text, ports, folder.path())));
    folder
}

/// Runs the binary in `folder` with `input` on standard input.
fn run(folder: &Folder, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments reads nothing.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

const DECIDE: [&str; 3] = ["decide", "--config", "portcullis.yaml"];

/// A time series of an office, asked for with a token.
fn series(office: &str, token: &str) -> String {
    format!(
        "path: /cwms-data/timeseries?office={office}\nheaders: {{ authorization: \"Bearer {token}\" }}\n"
    )
}

/// The user's claims are enough; no user API is asked.
fn by_claims(text: &str) -> String {
    let (before, rest) = text.split_once("user_context:\n").unwrap();
    let (_, after) = rest.split_once("  mapping:").unwrap();
    format!("{before}user_context:\n  source: claims\n  mapping:{after}")
}

#[test]
fn decide_tells_an_allow_as_text_and_as_json() {
    let folder = configured(by_claims);
    let (status, text, _) = run(&folder, &DECIDE, "{\"path\": \"/cwms-data/offices\"}");
    assert_eq!(status, Some(0), "{text}");
    assert!(text.starts_with("allow: public\n"), "{text}");
    for part in ["route: collection", "set: x-cwms-auth-context: {", "policy: ", "input:\n"] {
        assert!(text.contains(part), "{part} not in {text}");
    }
    let json = [DECIDE.as_slice(), &["--json"]].concat();
    let (status, text, _) = run(&folder, &json, "path: /cwms-data/offices\n");
    assert_eq!(status, Some(0), "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["outcome"], "allow", "{told}");
    assert_eq!(told["set"][0]["name"], "x-cwms-auth-context", "{told}");
    assert_eq!(told["input"]["resource"], "offices", "{told}");
    assert_eq!(told["input"]["identity"]["method"], "none", "{told}");
    assert!(told["policy_revision"].is_string() && told["decision_id"].is_string(), "{told}");
    let stages: Vec<_> = told["stages"].as_array().unwrap().iter().map(|s| &s["stage"]).collect();
    assert_eq!(stages, ["route", "policy"], "{told}");
    assert!(
        told["remove"].as_array().unwrap().iter().any(|n| n == "x_cwms_auth_context"),
        "{told}"
    );
}

#[test]
fn decide_exits_1_for_a_denial_and_2_for_what_is_unavailable() {
    let folder = configured(str::to_owned);
    let json = [DECIDE.as_slice(), &["--json"]].concat();
    let (status, text, _) = run(&folder, &json, "path: /cwms-data/timeseries?office=SPK\n");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &told["status"]), (Some(1), &Value::from(401)), "{told}");
    assert_eq!(told["challenge"]["realm"], "water-data", "{told}");

    let expired = Token::of("dam.operator").expired().sign();
    let (status, text, _) = run(&folder, &DECIDE, &series("SPK", &expired));
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with("deny: token_expired\n  status: 401\n"), "{text}");
    assert!(!text.contains(&expired), "the token is shown: {text}");

    let token = Token::of("dam.operator").sign();
    let (status, text, _) = run(&folder, &DECIDE, &series("SPK", &token));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.starts_with("unavailable: user_api_unavailable\n"), "{text}");
    assert!(text.contains("  context: "), "the stage's time: {text}");
}

#[test]
fn decide_exits_2_for_bad_use_and_says_what() {
    let folder = configured(str::to_owned);
    let bad = folder.write("bad.yaml", "routes: everything\n").display().to_string();
    let request = folder.write("request.json", "{\"path\": \"/cwms-data/offices\"}");
    let request = request.display().to_string();
    let cases: [(&[&str], &str, &str); 7] = [
        (&DECIDE, "path: [", "standard input"),
        (&DECIDE, "", "standard input"),
        (&DECIDE, "method: GET\n", "path"),
        (&DECIDE, "path: /\nhaeders: {}\n", "haeders"),
        (&["decide", "--config", &bad, "--request", &request], "", "routes"),
        (&["decide", "--config", "absent.yaml", "--request", &request], "", "absent.yaml"),
        (&["decide", "--config", "portcullis.yaml", "--request", "absent"], "", "absent"),
    ];
    for (arguments, input, says) in cases {
        let (status, text, error) = run(&folder, arguments, input);
        assert_eq!((status, text.as_str()), (Some(2), ""), "{arguments:?}, {input:?}: {error}");
        assert!(error.contains(says), "{arguments:?}, {input:?}: {error}");
    }
    let (status, _, error) = run(&folder, &["decide"], "");
    assert_eq!(status, Some(2), "{error}");
}

#[test]
fn decide_reads_everything_that_envoy_could_tell() {
    let folder = configured(by_claims);
    let request = "method: POST
path: /cwms-data/timeseries?office=SPK
host: api.example.test:8443
headers: { content-type: application/json, x-many: [a, b] }
body: { office: SPK }
partial_body: true
source: { address: 203.0.113.9, principal: spiffe://example.test/a, certificate: x, labels: { app: a } }
destination: { address: 203.0.113.10 }
context_extensions: { virtual_host: a }
metadata: { a: { b: 1 } }
route_metadata: { a: { b: 1 } }
tls_sni: api.example.test
request_id: r-1
scheme: https
protocol: HTTP/2
";
    let json = [DECIDE.as_slice(), &["--json"]].concat();
    let (status, text, error) = run(&folder, &json, request);
    assert_eq!(status, Some(1), "{text}{error}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["input"]["context"]["host"], "api.example.test", "{told}");
    assert_eq!(told["input"]["action"], "create", "{told}");
}

#[test]
fn check_config_exits_0_or_1_and_opens_nothing() {
    let folder = configured(str::to_owned);
    let check = ["check-config", "--config", "portcullis.yaml"];
    let (status, text, error) = run(&folder, &check, "");
    assert_eq!(status, Some(0), "{error}");
    assert!(text.starts_with("portcullis.yaml: ok, 3 routes, "), "{text}");

    let bad = folder.write("policy.yaml", "");
    folder.write("broken.rego", "package broken\ndecision := {\n");
    let text = files::shipped("deploy/config/minimal.yaml")
        .replace("{ discovery: true }", "{ file: absent.json }");
    let policy = "policy: { paths: [broken.rego], entry_points: [{ name: a, rule: data.broken.decision }] }\n";
    std::fs::write(&bad, text + policy).unwrap();
    let (status, text, error) = run(&folder, &["check-config", "--config", "policy.yaml"], "");
    assert_eq!((status, text.as_str()), (Some(1), ""), "{error}");
    for part in ["broken.rego", "absent.json"] {
        assert!(error.contains(part), "{part} not in {error}");
    }
    // What check-config refuses, serve refuses before any port is open.
    let (status, _, refused) = run(&folder, &["serve", "--config", "policy.yaml"], "");
    assert_eq!(status, Some(1), "{refused}");
    assert!(refused.contains("broken.rego"), "{refused}");
}

#[test]
fn the_schema_printed_is_the_one_committed() {
    let folder = Folder::new();
    for (command, file) in
        [("schema", "portcullis.schema.json"), ("config-reference", "reference.md")]
    {
        let (status, text, error) = run(&folder, &[command], "");
        assert_eq!(status, Some(0), "{error}");
        let committed = files::shipped(&format!("deploy/config/{file}"));
        assert_eq!(text.trim_end(), committed.trim_end(), "{file}");
    }
}

#[test]
fn a_start_with_keys_from_a_file_is_ready_soon() {
    let folder = configured(str::to_owned);
    let text = std::fs::read_to_string(folder.path().join("portcullis.yaml")).unwrap();
    let admin = text.lines().find_map(|line| line.trim().strip_prefix("admin: [\"127.0.0.1:"));
    let admin: u16 = admin.unwrap().trim_end_matches("\"]").parse().unwrap();
    let mut command = Command::new(BINARY);
    command.args(["serve", "--config", "portcullis.yaml"]).current_dir(folder.path());
    let start = Instant::now();
    let mut process = Process::start("portcullis", folder.path(), &mut command);
    let ready = || Ask::get("/ready").try_send(admin).is_ok_and(|answer| answer.status == 200);
    process.wait_for(ready);
    // A speed is reported, not asserted: a debug build on a busy machine says little.
    println!("ready after {:?}", start.elapsed());
    process.signal("TERM");
    assert!(process.ended(Duration::from_secs(15)).success());
}

#[test]
fn a_configuration_without_any_route_is_refused() {
    let folder = Folder::new();
    folder.write("portcullis.yaml", "routes: []\n");
    let (code, _, told) = run(&folder, &["check-config", "--config", "portcullis.yaml"], "");
    assert!(code != Some(0) && told.contains("every request would be denied"), "{code:?} {told}");
}
