//! From a policy's answer to a decision.

use super::*;

#[tokio::test]
async fn s6_2_what_is_not_of_the_agreed_shape_is_a_denial() {
    let bench = Bench::new("decision := input.context.answer");
    for answer in [json!({"allowed": true}), json!("true"), json!(1), json!([])] {
        let decision = bench.decide("decision", json!({"answer": answer})).await;
        assert!(!decision.allow);
        assert_eq!(code(&decision), Some(Code::DecisionShape), "{answer}");
    }
    assert!(bench.decide("decision", json!({"answer": true})).await.allow);
    assert!(bench.decide("decision", json!({"answer": {"allow": true}})).await.allow);
    assert!(!bench.decide("decision", json!({"answer": {"allow": false}})).await.allow);
}

#[tokio::test]
async fn r01_undefined_is_a_denial_with_its_own_reason() {
    let bench = Bench::new("decision if input.context.missing.x");
    let decision = bench.decide("decision", json!({})).await;
    assert!(!decision.allow);
    assert_eq!(code(&decision), Some(Code::PolicyUndefined));
}

#[tokio::test]
async fn r01_a_missing_rule_is_found_at_load() {
    let mut config = config("decision");
    config.entry_points[0].rule = "data.p.desicion".to_owned();
    let metrics = Metrics::new();
    let state = PolicyState::new(&config, &metrics, Arc::default()).unwrap();
    let problems = Bench::on("decision := true", &config, state, metrics).err().unwrap();
    assert_eq!(problems[0].pointer, "/entry_points/0/rule");
    assert!(problems[0].message.contains("data.p.desicion"));
}

fn constraints(decision: &Decision) -> Value {
    serde_json::from_str(decision.constraints().unwrap()).unwrap()
}

#[tokio::test]
async fn s6_1_the_policy_sees_the_document_and_nothing_else() {
    let bench = Bench::new("decision := {\"allow\": true, \"constraints\": input}");
    let mut question = bench.question("decision", &json!({"n": 1}));
    question.input.resource = Some("orders".into());
    let decision = bench.ask(&question).await.0;
    let expected =
        json!({"identity": {"method": "none"}, "resource": "orders", "context": {"n": 1}});
    assert_eq!(constraints(&decision), expected);
}

#[tokio::test]
async fn s6_4_only_an_entry_point_that_reads_the_time_sees_it() {
    let policy = "decision := {\"allow\": true, \"constraints\": input.context}
timed := decision";
    let bench = Bench::new(policy);
    let decision = bench.decide("decision", json!({"n": 1})).await;
    assert_eq!(constraints(&decision), json!({"n": 1}));
    let decision = bench.decide("timed", json!({"n": 1})).await;
    let expected = json!({
        "n": 1, "time": "2023-11-14T22:13:20.000Z", "time_ns": 1_700_000_000_000_000_000_i64,
    });
    assert_eq!(constraints(&decision), expected);
}

#[tokio::test]
async fn every_evaluation_has_an_id_of_its_own_and_the_revision() {
    let bench = Bench::new("decision := true");
    let mut ids = std::collections::HashSet::new();
    for n in 0..100 {
        let decision = bench.decide("decision", json!({"n": n})).await;
        assert_eq!(decision.id.len(), 32);
        assert_eq!(decision.revision.len(), 16);
        assert!(ids.insert(decision.id));
    }
}
