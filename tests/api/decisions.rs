//! The decisions that must be reproduced, and the keys that keep the doors apart.

use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Request};
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest};
use serde_json::{Value, json};

use super::world::{Api, ask, keyed, post};
use crate::harness::{Token, grpc, root};
use crate::kit::token::now;

/// `$now-3600s` as nanoseconds.
fn at(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("$now") => {
            let seconds = text.trim_start_matches("$now").trim_end_matches('s');
            let seconds: i64 = seconds.parse().unwrap();
            json!((now() + seconds) * 1_000_000_000)
        }
        Value::Array(items) => items.iter().map(at).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, v)| (name.clone(), at(v))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn the_known_decisions_come_through_the_api_one_by_one_and_as_a_batch() {
    let api = Api::start();
    let text = std::fs::read_to_string(root().join("tests/data/cwms_decisions.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut questions = Vec::new();
    let mut expected = Vec::new();
    for case in &cases {
        let input = &case["input"];
        let mut question = json!({
            "resource": input["resource"], "action": input["action"], "context": at(&input["context"]),
        });
        // How a caller authenticated cannot be asserted, nor an action that is none.
        match input["identity"]["method"].as_str() {
            _ if input["action"] == "unknown" => continue,
            Some("none") => {}
            Some("jwt") => question["user"] = at(&input["user"]),
            _ => continue,
        }
        questions.push(question);
        expected.push((case["name"].clone(), case["ours_allows"].clone()));
    }
    assert!(questions.len() >= 75, "{}", questions.len());
    assert!(expected.iter().filter(|(_, allows)| *allows == true).count() * 5 >= expected.len());
    let answer = api.send(keyed(post("/authorize/batch", &json!({ "requests": questions }))));
    let results = answer.json()["results"].clone();
    for (n, (name, allows)) in expected.iter().enumerate() {
        let answer = api.send(keyed(ask(&questions[n]))).json();
        assert_eq!(&answer["decision"]["allow"], allows, "{name}: {answer}");
        assert_eq!(&results[n]["decision"]["allow"], allows, "{name}: {}", results[n]);
    }
}

#[test]
fn evidence_reaches_the_policy() {
    let api = Api::start();
    let user = json!({
        "id": "d", "roles": ["dam_operator"], "offices": ["SPK"], "persona": "dam_operator",
        "timezone": "America/Los_Angeles", "shift_start": 0, "shift_end": 24,
    });
    let update = |hours: i64| {
        let created = (now() - hours * 3600) * 1_000_000_000;
        let context = json!({ "office_id": "SPK", "data_source": "MANUAL", "created_ns": created });
        let question = json!({
            "resource": "timeseries", "action": "update", "user": user, "context": context,
        });
        api.send(keyed(ask(&question))).json()["decision"].clone()
    };
    assert_eq!(update(1)["allow"], true);
    assert_eq!(update(30)["reason"], "record_too_old");
}

#[test]
fn c03_a_decision_of_one_door_answers_no_other() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    let question = json!({
        "resource": "levels", "action": "read", "context": { "office_id": "SPK" },
    });
    let by_api = || {
        let answer = api.send(ask(&question).bearer(&token)).json();
        answer["decision"]["decision_id"].as_str().unwrap().to_owned()
    };
    let by_check = || {
        let http = HttpRequest {
            method: "GET".to_owned(),
            path: "/cwms-data/levels?office=SPK".to_owned(),
            host: "api.example.test".to_owned(),
            headers: [("authorization".to_owned(), format!("Bearer {token}"))].into(),
            ..HttpRequest::default()
        };
        let request = Request { http: Some(http), ..Request::default() };
        let attributes = AttributeContext { request: Some(request), ..AttributeContext::default() };
        let reply = grpc::check(api.ports.check, &CheckRequest { attributes: Some(attributes) });
        assert_eq!(reply.status.as_ref().unwrap().code, 0, "{reply:?}");
        let text = format!("{reply:?}");
        let (_, rest) = text.split_once("decision_id").unwrap();
        rest.split(|c: char| !c.is_ascii_hexdigit()).find(|w| w.len() == 32).unwrap().to_owned()
    };
    let (api_first, check_first) = (by_api(), by_check());
    assert_ne!(api_first, check_first);
    assert_eq!((by_api(), by_check()), (api_first, check_first), "each from its own cache");
    assert_eq!(api.backend.user_calls(), 1, "the user's context serves both doors");
}
