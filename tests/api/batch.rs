//! Batches: order, one look-up, one event for each question.

use serde_json::{Value, json};

use super::world::{Api, keyed, post};
use crate::harness::{Ask, Token};

fn levels(office: &str) -> Value {
    json!({ "resource": "levels", "action": "read", "context": { "office_id": office } })
}

fn batch(questions: &[Value]) -> Ask {
    post("/authorize/batch", &json!({ "requests": questions }))
}

#[test]
fn a_hundred_questions_keep_their_order_and_one_user_is_looked_up_once() {
    let api = Api::start();
    api.backend.user_delay.store(100, std::sync::atomic::Ordering::SeqCst);
    let offices: Vec<String> =
        (0..100).map(|n| if n % 3 == 0 { "SPK".to_owned() } else { format!("X{n}") }).collect();
    let questions: Vec<Value> = offices.iter().map(|office| levels(office)).collect();
    let answer = api.send(batch(&questions).bearer(&Token::of("dam.operator").sign()));
    assert_eq!(answer.status, 200, "{answer:?}");
    let results = answer.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 100);
    for (office, result) in offices.iter().zip(&results) {
        assert_eq!(result["decision"]["allow"], office == "SPK", "{office}: {result}");
    }
    assert_eq!(api.backend.stats()["user_calls"], 1);
    let events = api.events(100);
    assert_eq!(events.len(), 100);
    assert!(events.iter().all(|event| event["route"] == "api:batch" && event["status"] == 200));
}

#[test]
fn each_user_of_a_batch_is_looked_up_once_also_when_that_fails() {
    let api = Api::start();
    let of = |user: &str, office: &str| {
        let mut question = levels(office);
        question["jwt_token"] = Token::of(user).sign().into();
        question
    };
    let (a, b) = (of("dam.operator", "SPK"), of("water.manager", "SPK"));
    let questions: Vec<Value> =
        (0..40).map(|n| if n % 2 == 0 { a.clone() } else { b.clone() }).collect();
    api.backend.user_status.store(500, std::sync::atomic::Ordering::SeqCst);
    let results = api.send(keyed(batch(&questions))).json()["results"].clone();
    for result in results.as_array().unwrap() {
        assert_eq!(result["status"], 503, "{result}");
        assert!(result["retry_after"].is_u64() && result.get("decision").is_none(), "{result}");
    }
    let failed = api.backend.user_calls();
    assert_eq!(failed, 2);
    api.backend.user_status.store(0, std::sync::atomic::Ordering::SeqCst);
    let results = api.send(keyed(batch(&questions))).json()["results"].clone();
    for (n, result) in results.as_array().unwrap().iter().enumerate() {
        assert_eq!(result["decision"]["allow"], n % 2 == 0, "{result}");
    }
    assert_eq!(api.backend.user_calls(), failed + 2);
}

#[test]
fn a_question_without_its_right_fails_alone_and_a_wrong_form_fails_the_call() {
    let api = Api::start();
    let token = Token::of("dam.operator").sign();
    let mut asserted = levels("SPK");
    asserted["user"] = json!({ "id": "x" });
    let answer = api.send(batch(&[levels("SPK"), asserted, levels("SPK")]).bearer(&token));
    let results = answer.json()["results"].clone();
    assert_eq!(results[0]["decision"]["allow"], true, "{results}");
    assert_eq!(results[1]["status"], 403, "{results}");
    assert_eq!(results[2]["decision"]["allow"], true, "{results}");

    let answer = api.send(batch(&[levels("SPK"), json!({ "resource": "levels" })]).bearer(&token));
    assert_eq!(answer.status, 400);
    assert!(answer.json()["message"].as_str().unwrap().contains("requests[1]"), "{answer:?}");
    for count in [0, 101] {
        let answer = api.send(batch(&vec![levels("SPK"); count]).bearer(&token));
        assert_eq!(answer.status, 400, "{count}: {answer:?}");
    }
    let large = batch(&[json!("a".repeat(1_100_000))]).bearer(&token);
    assert_eq!(api.send(large).status, 413);
    // Three answered, four refused as a whole.
    assert_eq!(api.events(7).len(), 7);
}

#[test]
fn a_batch_has_one_caller() {
    let api = Api::start();
    let with = |user: &str| {
        let mut question = levels("SPK");
        question["jwt_token"] = Token::of(user).sign().into();
        question
    };
    assert_eq!(api.send(batch(&[levels("SPK")])).status, 401);
    assert_eq!(api.send(batch(&[with("dam.operator"), levels("SPK")])).status, 401);
    assert_eq!(api.send(batch(&[with("dam.operator"), with("water.manager")])).status, 401);
    let own = with("dam.operator");
    let answer = api.send(batch(&[own.clone(), own]));
    assert_eq!(answer.json()["results"][1]["decision"]["allow"], true, "{answer:?}");
}
