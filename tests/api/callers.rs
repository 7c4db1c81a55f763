//! Who may ask what about whom.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::world::{Api, KEY, PLAIN_KEY, ask, keyed, post};
use crate::harness::{Answer, Ask, Token};
use crate::kit::token::Signer;

fn levels(office: &str) -> Value {
    json!({ "resource": "levels", "action": "read", "context": { "office_id": office } })
}

fn with(mut question: Value, name: &str, value: impl Into<Value>) -> Value {
    question[name] = value.into();
    question
}

fn allowed(answer: &Answer) -> bool {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["decision"]["allow"].as_bool().unwrap()
}

fn refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
    assert!(body["error"].is_string() && body["message"].is_string(), "{body}");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(status != 401 || answer.header("www-authenticate").starts_with("Bearer realm="));
}

#[test]
fn a_bearer_asks_about_itself_and_a_denial_is_200() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    let answer = api.send(ask(&levels("SPK")).bearer(&token));
    assert!(allowed(&answer), "{answer:?}");
    let body = answer.json();
    assert_eq!(body["user"]["id"], "DAM.OPERATOR", "{body}");
    assert_eq!(body["user"]["offices"], json!(["SPK"]), "{body}");
    assert!(body["user"].get("ts_privileges").is_none(), "not among user_fields: {body}");
    assert_eq!(body["constraints"]["allowed_offices"], json!(["SPK"]), "{body}");
    assert!(body["decision"]["decision_id"].as_str().unwrap().len() >= 16, "{body}");
    assert!(body["timestamp"].as_str().unwrap().ends_with('Z'), "{body}");

    let answer = api.send(ask(&levels("SWT")).bearer(&token));
    assert!(!allowed(&answer));
    assert_eq!(answer.json()["decision"]["reason"], "office_not_yours");
    let events = api.events(2);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((&events[1]["outcome"], &events[1]["status"]), (&json!("deny"), &json!(200)));
}

#[test]
fn a_jwt_token_without_authorization_is_the_callers_own() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    let answer = api.send(ask(&with(levels("SPK"), "jwt_token", token.clone())));
    assert!(allowed(&answer), "{answer:?}");
    // His own beside his own bearer needs no right, also where it is another token of his.
    let again = Token::of("dam.operator").claim("jti", "second").sign();
    let answer = api.send(ask(&with(levels("SPK"), "jwt_token", again)).bearer(&token));
    assert!(allowed(&answer), "{answer:?}");
}

#[test]
fn an_api_key_asks_about_anonymous() {
    let api = Api::start();
    for key in [KEY, PLAIN_KEY] {
        let question = json!({ "resource": "offices", "action": "read" });
        let answer = api.send(ask(&question).header("x-api-key", key));
        assert!(allowed(&answer), "{answer:?}");
        assert_eq!(answer.json()["user"]["id"], "anonymous");
        assert!(!allowed(&api.send(ask(&levels("SPK")).header("x-api-key", key))));
    }
    assert_eq!(api.backend.user_calls(), 0);
}

#[test]
fn what_needs_a_right_is_403_without_it() {
    let api = Api::start();
    let own = Token::of("dam.operator").sign();
    let other = Token::of("water.manager").sign();
    let scoped = Token::of("dam.operator").claim("scope", "openid authorize.other").sign();
    let user = json!({ "id": "x", "roles": ["system_admin"], "offices": [] });
    let about_user = with(levels("SWT"), "user", user.clone());
    let about_other = with(levels("SWT"), "jwt_token", other.clone());
    let mut vouched = levels("SPK");
    vouched["context"]["created_ns"] = json!(1);
    let mut undeclared = levels("SPK");
    undeclared["context"]["approved_by_nobody"] = json!(true);
    for question in [&about_user, &about_other, &vouched, &undeclared] {
        refused(&api.send(ask(question).bearer(&own)), 403);
        refused(&api.send(ask(question).header("x-api-key", PLAIN_KEY)), 403);
        assert_eq!(api.send(keyed(ask(question))).status, 200, "{question}");
    }
    // The scope gives the one right and no other.
    assert!(allowed(&api.send(ask(&about_other).bearer(&scoped))));
    for question in [&about_user, &vouched, &undeclared] {
        refused(&api.send(ask(question).bearer(&scoped)), 403);
    }
    // A token is no cover for a user beside it, though it wins.
    let both = with(with(levels("SPK"), "jwt_token", own.clone()), "user", user);
    refused(&api.send(ask(&both)), 403);
    let answer = api.send(keyed(ask(&both)));
    assert_eq!(answer.json()["user"]["id"], "DAM.OPERATOR", "{answer:?}");
}

#[test]
fn a_caller_without_a_good_credential_gets_nothing() {
    let api = Api::start();
    let question = levels("SPK");
    let own = Token::of("dam.operator");
    let sign = |token: Token| token.sign();
    refused(&api.send(ask(&question)), 401);
    for bad in [
        sign(own.clone().expired()),
        sign(own.clone().signer(Signer::Forger)),
        sign(own.clone().claim("aud", "another")),
        sign(own.clone().claim("iss", "https://elsewhere.example.test")),
        "x".to_owned(),
    ] {
        refused(&api.send(ask(&question).bearer(&bad)), 401);
        refused(&api.send(ask(&with(question.clone(), "jwt_token", bad.clone()))), 401);
        refused(&api.send(keyed(ask(&with(question.clone(), "jwt_token", bad)))), 401);
    }
    for key in ["", "x", KEY.trim_start_matches('m'), &format!("{KEY}x"), &KEY.to_uppercase()] {
        refused(&api.send(ask(&question).header("x-api-key", key)), 401);
    }
    refused(&api.send(ask(&question).header("authorization", "Basic eDp5")), 401);
    let good = sign(own);
    refused(&api.send(keyed(ask(&question).bearer(&good))), 400);
    refused(&api.send(ask(&question).bearer(&good).bearer(&good)), 400);
    refused(&api.send(keyed(keyed(ask(&question)))), 400);
    assert_eq!(api.backend.user_calls(), 0, "nothing is looked up for them");
}

#[test]
fn s2_3_nobody_names_what_the_core_sets() {
    let api = Api::start();
    for name in
        ["body_state", "host", "method", "path", "query", "scheme", "segments", "time", "time_ns"]
    {
        let mut question = levels("SPK");
        question["context"][name] = json!("spoofed");
        refused(&api.send(keyed(ask(&question))), 400);
    }
    for name in ["identity", "token", "relations", "input"] {
        refused(&api.send(keyed(ask(&with(levels("SPK"), name, json!({}))))), 400);
    }
    // A user is `input.user` and no more: how he came is the core's word.
    let user = json!({
        "id": "c", "roles": ["automated_collector"], "offices": ["SPK"], "auth_method": "api_key",
        "identity": { "method": "api_key" },
    });
    let question = json!({
        "resource": "timeseries", "action": "create", "user": user,
        "context": { "office_id": "SPK", "data_source": "AUTOMATED" },
    });
    let answer = api.send(keyed(ask(&question)));
    assert!(!allowed(&answer));
    assert_eq!(answer.json()["decision"]["reason"], "api_key_required");
}

#[test]
fn c07_an_asserted_user_never_enters_a_cache_of_his_name() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    let erase = json!({
        "resource": "zzz", "action": "delete", "context": { "office_id": "SPK" },
    });
    let asserted = |roles: &[&str]| {
        let user = json!({ "id": "DAM.OPERATOR", "roles": roles, "offices": ["SPK"] });
        keyed(ask(&with(erase.clone(), "user", user)))
    };
    // Before and after his own context is known, each gets his own decision, twice.
    for _ in 0..2 {
        assert!(allowed(&api.send(asserted(&["system_admin"]))));
        assert!(!allowed(&api.send(asserted(&["dam_operator"]))));
        let own = api.send(ask(&erase).bearer(&token));
        assert!(!allowed(&own), "{own:?}");
        assert_eq!(own.json()["user"]["roles"], json!(["CWMS Users", "dam_operator"]), "{own:?}");
    }
    assert_eq!(api.backend.user_calls(), 1);
    let events = api.events(6);
    assert!(
        events
            .iter()
            .filter(|e| e["caller"] == "data-api")
            .all(|e| { e["caches"].get("context").is_none() && e.get("subject_hash").is_none() })
    );
}

#[test]
fn what_cannot_be_decided_is_503_and_not_kept() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    api.backend.user_status.store(500, Ordering::SeqCst);
    let answer = api.send(ask(&levels("SPK")).bearer(&token));
    refused(&answer, 503);
    assert!(answer.header("retry-after").parse::<u32>().is_ok(), "{answer:?}");
    api.backend.user_status.store(0, Ordering::SeqCst);
    assert!(allowed(&api.send(ask(&levels("SPK")).bearer(&token))));

    let stranger = Token::of("nobody.knows").sign();
    let answer =
        api.send(ask(&json!({ "resource": "offices", "action": "read" })).bearer(&stranger));
    assert!(!allowed(&answer));
    assert_eq!(answer.json()["decision"]["reason"], "unknown_user");
}

#[test]
fn what_is_too_large_malformed_or_elsewhere_is_refused_in_the_same_form() {
    let api = Api::with(|text| {
        text.replace("check: { budget", "limits: { header_timeout: 2s }\ncheck: { budget")
    });
    refused(&api.send(keyed(ask(&json!({ "resource": "r", "pad": "a".repeat(70_000) })))), 413);
    let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
    let mut question = levels("SPK");
    question["context"]["parameter"] = deep;
    refused(&api.send(keyed(ask(&question))), 413);
    for body in [
        &b"{"[..],
        b"\xff",
        b"",
        b"{\"resource\":\"levels\",\"resource\":\"gates\",\"action\":\"read\"}",
    ] {
        let typed = Ask::new("POST", "/authorize").header("content-type", "application/json");
        refused(&api.send(keyed(typed.body(body))), 400);
    }
    let untyped = Ask::new("POST", "/authorize").body(levels("SPK").to_string());
    refused(&api.send(keyed(untyped)), 400);
    // A body that never comes ends by itself, and is the caller's own fault.
    let stalled = Ask::new("POST", "/authorize").header("content-length", "100");
    refused(&api.send(keyed(stalled)), 400);
    refused(&api.send(post("/elsewhere", &json!({}))), 404);
    refused(&api.send(Ask::get("/authorize")), 405);
    for target in ["/health", "/ready", "/metrics"] {
        refused(&api.send(Ask::get(target)), 404);
    }
}
