//! Evaluations: one per question, bounded, and beside the runtime.

use std::time::{Duration, Instant};

use super::*;
use crate::model::Class;

const SLOW: &str = "decision := {\"allow\": true, \"constraints\": {\"n\": slow}}
slow := count([1 | some a in input.context.l; some b in input.context.l; some c in input.context.l; a + b + c >= 0])
other := true";

fn numbers(n: usize) -> Value {
    json!({"l": (0..n).collect::<Vec<_>>()})
}

#[tokio::test]
async fn s6_8_a_limit_reached_is_a_denial_and_not_cached() {
    let bench = Bench::new(SLOW);
    let question = bench.question("decision", &numbers(400));
    for _ in 0..2 {
        let decided = bench.ask(&question).await;
        assert!(!decided.0.allow && decided.0.expires.is_none() && !is_hit(&decided));
        assert_eq!(code(&decided.0), Some(Code::EvaluationLimit));
    }
}

#[tokio::test]
async fn s6_8_an_evaluation_that_was_starved_is_unavailable_and_not_cached() {
    let mut bench = Bench::new(SLOW);
    let question = bench.question("decision", &numbers(400));
    let key = bench.decider.key(&question);
    let entry = Arc::get_mut(bench.decider.entries.get_mut("decision").unwrap()).unwrap();
    // A thread whose CPU time stands still.
    entry.rule = entry.rule.clone().measured_by(|| Duration::ZERO);
    // Who waits may leave at his own deadline, long before it is given up; he is told of no
    // denial either way.
    let asked = bench.decider.resolve(key, question.clone(), Asker::default());
    let left = tokio::time::timeout(Duration::from_millis(10), asked).await;
    assert!(!matches!(left, Ok(Ok(_))), "{left:?}");
    for _ in 0..2 {
        let asked = bench.decider.resolve(key, question.clone(), Asker::default()).await;
        let code = asked.unwrap_err().code;
        assert!(code == Code::Overloaded && code.class() == Class::Unavailable, "{code:?}");
    }
}

#[tokio::test]
async fn s3_6_a_policy_that_errs_on_an_input_is_a_denial_and_not_cached() {
    let bench =
        Bench::new("decision := true if input.context.a\ndecision := false if input.context.b");
    let question = bench.question("decision", &json!({"a": 1, "b": 1}));
    for _ in 0..2 {
        let decided = bench.ask(&question).await;
        assert_eq!(code(&decided.0), Some(Code::PolicyError));
        assert!(!decided.0.allow && decided.0.expires.is_none() && !is_hit(&decided));
    }
    assert!(bench.decide("decision", json!({"a": 1})).await.allow);
}

#[tokio::test(flavor = "current_thread")]
async fn s6_8_a_long_evaluation_does_not_stall_other_checks() {
    let bench = Arc::new(Bench::new(SLOW));
    let long = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.decide("decision", numbers(400)).await }
    });
    tokio::task::yield_now().await;
    // The runtime's one thread is free while the other evaluates.
    let started = Instant::now();
    assert!(bench.decide("other", json!({})).await.allow);
    let took = started.elapsed();
    assert!(!long.is_finished(), "{took:?}");
    assert_eq!(code(&long.await.unwrap()), Some(Code::EvaluationLimit));
}

#[tokio::test]
async fn s6_8_a_brief_evaluation_runs_where_it_is_asked_for_and_a_long_one_does_not() {
    let bench = Bench::new(SLOW);
    let at_once = async |entry: &str, context: Value| {
        // Its turn comes, however much was evaluated before.
        std::thread::sleep(Duration::from_millis(10));
        let question = bench.question(entry, &context);
        let key = bench.decider.key(&question);
        let mut asked = bench.decider.resolve(key, question, Asker::default());
        let polled = futures_util::poll!(&mut asked);
        let ready = polled.is_ready();
        let decided =
            if let std::task::Poll::Ready(decided) = polled { decided } else { asked.await };
        (ready, decided.unwrap())
    };
    // A worker may be done before it is looked for, now and then.
    let mut elsewhere = false;
    for n in 0..20 {
        elsewhere |= !at_once("other", json!({"l": [n]})).await.0;
    }
    assert!(elsewhere, "the thread has no room");
    crate::rego::has_room();
    let mut brief = false;
    for n in 0..100 {
        let (ready, decided) = at_once("other", json!({"n": n})).await;
        assert!(decided.0.allow && !is_hit(&decided));
        let kept = bench.question("other", &json!({"n": n}));
        assert!(is_hit(&bench.ask(&kept).await));
        brief |= ready;
    }
    assert!(brief);
    let (ready, decided) = at_once("decision", numbers(400)).await;
    assert!(!ready);
    assert_eq!(code(&decided.0), Some(Code::EvaluationLimit));
}

#[tokio::test(flavor = "multi_thread")]
async fn c05_one_evaluation_serves_all_who_ask_at_once() {
    let bench = Arc::new(Bench::new(SLOW));
    let question = bench.question("decision", &numbers(15));
    let asks: Vec<_> = (0..50)
        .map(|_| {
            let (bench, question) = (Arc::clone(&bench), question.clone());
            tokio::spawn(async move { bench.ask(&question).await.0 })
        })
        .collect();
    asks[0].abort();
    let mut ids = std::collections::HashSet::new();
    for ask in asks.into_iter().skip(1) {
        ids.insert(ask.await.unwrap().id);
    }
    assert_eq!(ids.len(), 1);
    assert_eq!(bench.evaluations(), 1);
}

#[tokio::test]
async fn a_panic_while_finishing_ends_one_check_alone() {
    let bench = Bench::new("decision := {\"allow\": true, \"reason\": input.context.reason}");
    let question = bench.question("decision", &json!({"reason": "panic"}));
    let key = bench.decider.key(&question);
    for _ in 0..5 {
        let refusal =
            bench.decider.resolve(key, question.clone(), Asker::default()).await.unwrap_err();
        assert_eq!(refusal.code, Code::InternalError);
    }
    assert!(bench.decide("decision", json!({"reason": "fine"})).await.allow);
}
