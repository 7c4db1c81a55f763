//! What callers send is secret: no log, no audit record, no answer has it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use portcullis::app::hash_of_key;
use serde_json::json;

use super::world::{Api, KEY, ask, keyed, post};
use crate::harness::{Ask, Token};

#[test]
fn a05_no_marker_of_a_body_or_a_key_is_logged_or_repeated() {
    let api = Api::with(|text| text + "\nlog: { level: trace }\n");
    let good = json!({ "resource": "levels", "action": "read", "context": { "office_id": "marker-office" } });
    let mut broken = good.clone();
    broken["marker-member"] = json!("marker-value");
    let mut token = good.clone();
    token["jwt_token"] = json!("marker.jwt.token");
    let mut user = good.clone();
    user["user"] =
        json!({ "id": "marker-user", "roles": ["marker-role"], "secret": "marker-secret" });
    let mut answers = String::new();
    for question in [&good, &broken, &token, &user] {
        answers += &api.send(ask(question)).text();
        answers += &api.send(ask(question).bearer("marker.bearer.token")).text();
        answers += &api
            .send(ask(question).header("x-api-key", "marker-wrong-key-0123456789abcdefgh"))
            .text();
        if question.get("user").is_none() {
            answers += &api.send(keyed(ask(question))).text();
        }
        let all = json!({ "requests": [question] });
        answers += &api.send(post("/authorize/batch", &all)).text();
    }
    let text = Ask::new("POST", "/authorize?access_token=marker-query");
    answers +=
        &api.send(keyed(text.header("content-type", "text/plain").body("marker-plain"))).text();
    // With the right, what he asserted is in the answer, and nowhere else.
    let answer = api.send(keyed(ask(&user)));
    assert_eq!(answer.json()["user"]["id"], "marker-user");
    assert!(!answer.text().contains("marker-secret"));
    assert!(!answers.contains("marker"), "{answers}");
    api.events(21);
    let out = api.process.output();
    let signed = Token::of("dam.operator").sign();
    api.send(ask(&good).bearer(&signed));
    let out = out + &api.process.output();
    assert!(!out.contains("marker"), "{}", out.lines().find(|l| l.contains("marker")).unwrap());
    assert!(!out.contains(&signed) && !out.contains(KEY));
}

#[test]
fn every_question_is_audited_once_with_its_door_and_caller() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    let levels =
        json!({ "resource": "levels", "action": "read", "context": { "office_id": "SPK" } });
    api.send(ask(&levels).bearer(&token));
    api.send(ask(&levels));
    api.send(keyed(ask(&json!({}))));
    api.send(keyed(ask(&levels)));
    api.send(keyed(post("/authorize/batch", &json!({ "requests": [levels, levels] }))));
    api.send(post("/authorize/batch", &json!({})));
    let events = api.events(7);
    let seen: Vec<_> = events
        .iter()
        .map(|e| (e["status"].as_u64().unwrap(), e["caller"].as_str().unwrap_or("-")))
        .collect();
    let named = (200, "data-api");
    assert_eq!(seen, [(200, "-"), (401, "-"), (400, "-"), named, named, named, (400, "-")]);
    assert!(events[0]["caller_hash"].is_string() && events[0]["subject_hash"].is_string());
    assert_eq!(events[0]["resource"], "levels");
    let metrics = Ask::get("/metrics").send(api.ports.admin).text();
    let line = "portcullis_checks_total{outcome=\"deny\",reason=\"credential_missing\",route=\"api:authorize\"} 1";
    assert!(metrics.contains(line), "{line} not in\n{metrics}");
    assert!(metrics.contains("outcome=\"allow\",reason="), "{metrics}");
}

#[test]
fn a_key_and_its_hash_come_from_the_command_line() {
    let run = |args: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let made = run(&["api-key"], "");
    let word = |name: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_matches('"').to_owned()
    };
    let (key, hash) = (word("key:"), word("key_hash:"));
    assert!(key.len() >= 43 && hash == hash_of_key(&key), "{made}");
    assert_eq!(run(&["api-key", "--hash"], &format!("{key}\n")).trim(), hash);
    assert_ne!(run(&["api-key"], ""), made);
}
