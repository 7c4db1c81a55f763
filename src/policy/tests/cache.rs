//! Keys and lifetimes.

use std::time::Duration;

use super::*;
use crate::clock::Expiry;
use crate::store::Target;

#[tokio::test]
async fn s6_6_allow_and_deny_are_cached_for_the_default_lifetime() {
    let bench = Bench::new("default decision := false\ndecision if input.context.ok");
    for ok in [true, false] {
        let question = bench.question("decision", &json!({"ok": ok}));
        assert!(!is_hit(&bench.ask(&question).await));
        let again = bench.ask(&question).await;
        assert!(is_hit(&again));
        assert_eq!(again.0.allow, ok);
    }
    assert_eq!(bench.evaluations(), 2);
    for (by, hit) in [(299, true), (1, false)] {
        bench.clock.advance(Duration::from_secs(by));
        let decided = bench.ask(&bench.question("decision", &json!({"ok": true}))).await;
        assert_eq!(is_hit(&decided), hit);
    }
    let text = bench.metrics.render().unwrap();
    assert!(text.contains("portcullis_cache_requests_total{cache=\"decision\",result=\"hit\"} 3"));
}

/// For how many whole seconds a decision on `context` serves; asks again each second.
async fn lifetime(bench: &Bench, entry: &str, context: &Value) -> u64 {
    let key = bench.decider.key(&bench.question(entry, context));
    bench.ask(&bench.question(entry, context)).await;
    for second in 0..1000 {
        if bench.decider.peek(&key, &bench.now(), Asker::default()).is_none() {
            return second;
        }
        bench.clock.advance(Duration::from_secs(1));
    }
    panic!("it never ended")
}

#[tokio::test]
async fn s6_6_a_ttl_is_in_seconds_rounded_down_and_bounded_by_the_maximum() {
    let bench = Bench::new("decision := {\"allow\": true, \"ttl\": input.context.ttl}");
    for (ttl, secs) in [
        (json!(10), 10),
        (json!(10.9), 10),
        (json!(0), 0),
        (json!(0.9), 0),
        (json!(301), 300),
        (json!(1e18), 300),
        (json!(1e300), 300),
    ] {
        assert_eq!(lifetime(&bench, "decision", &json!({"ttl": ttl})).await, secs, "{ttl}");
    }
}

#[tokio::test]
async fn s6_6_a_decision_that_reads_the_time_lives_for_clock_ttl_unless_it_says_otherwise() {
    let policy = "timed := true if not input.context.ttl
timed := {\"allow\": true, \"ttl\": input.context.ttl} if input.context.ttl";
    let bench = Bench::new(policy);
    assert_eq!(lifetime(&bench, "timed", &json!({})).await, 1);
    assert_eq!(lifetime(&bench, "timed", &json!({"ttl": 20})).await, 20);
}

#[tokio::test]
async fn c07_no_decision_outlives_the_token_or_the_user_context() {
    let bench = Bench::new("decision := {\"allow\": true, \"ttl\": 60}");
    let mut question = bench.question("decision", &json!({}));
    question.cap = Some(Expiry::after(&question.now, Duration::from_secs(3)));
    bench.ask(&question).await;
    let key = bench.decider.key(&question);
    bench.clock.advance(Duration::from_secs(2));
    assert!(bench.decider.peek(&key, &bench.now(), Asker::default()).is_some());
    bench.clock.advance(Duration::from_secs(1));
    assert!(bench.decider.peek(&key, &bench.now(), Asker::default()).is_none());
    // What has ended already is not kept at all.
    let mut question = bench.question("decision", &json!({"n": 1}));
    question.cap = Some(Expiry::after(&question.now, Duration::ZERO));
    assert!(bench.ask(&question).await.0.expires.is_none());
    assert!(!is_hit(&bench.ask(&question).await));
}

#[tokio::test]
async fn c07_a_change_of_rights_is_another_question() {
    let bench = Bench::new("default decision := false\ndecision if \"admin\" in input.user.roles");
    let mut question = bench.question("decision", &json!({}));
    for (roles, allow) in [(json!(["admin"]), true), (json!([]), false), (json!(["admin"]), true)] {
        question.input.user = Some(Fragment::new(&json!({"roles": roles})));
        assert_eq!(bench.ask(&question).await.0.allow, allow);
    }
}

#[tokio::test]
async fn s5_6_a_decision_on_stale_ground_is_not_cached() {
    let bench = Bench::new("decision := true");
    let stale = Question { uncached: true, ..bench.question("decision", &json!({})) };
    let decision = bench.ask(&stale).await.0;
    assert!(decision.allow && decision.expires.is_none());
    assert!(!is_hit(&bench.ask(&stale).await));
    assert!(!is_hit(&bench.ask(&bench.question("decision", &json!({}))).await));
    // Where a fresh decision is cached, resolving on stale ground evaluates still.
    let key = bench.decider.key(&stale);
    let decided = bench.decider.resolve(key, stale, Asker::default()).await.unwrap();
    assert!(!is_hit(&decided) && decided.0.expires.is_none());
}

#[tokio::test]
async fn c03_each_question_gets_its_own_decision() {
    let policy = "default decision := false
decision if input.context == data_like
data_like := {\"sub\": \"a:b\", \"tenant\": \"c\"}
default other := false
other if input.context.roles == [\"a\", \"b\"]
other if input.context.header == \"\"
other if input.action == \"GET\"";
    let bench = Bench::new(policy);
    let ask = async |entry, context| bench.decide(entry, context).await.allow;
    assert!(ask("decision", json!({"sub": "a:b", "tenant": "c"})).await);
    assert!(!ask("decision", json!({"sub": "a", "tenant": "b:c"})).await);
    assert!(ask("other", json!({"roles": ["a", "b"]})).await);
    assert!(!ask("other", json!({"roles": ["a,b"]})).await);
    assert!(ask("other", json!({"header": ""})).await);
    assert!(!ask("other", json!({})).await);
    // One document, two entry points.
    assert!(!ask("decision", json!({"header": ""})).await);
    // A member that moves from one part to another.
    let mut question = bench.question("other", &json!({}));
    question.input.action = Some("GET".into());
    assert!(bench.ask(&question).await.0.allow);
    question.input.resource = question.input.action.take();
    assert!(!bench.ask(&question).await.0.allow);
}

#[tokio::test]
async fn c03_a_reload_of_the_policies_leaves_old_decisions_unasked() {
    let old = Bench::new("decision := false");
    let question = old.question("decision", &json!({}));
    assert!(!old.ask(&question).await.0.allow);
    let policy = "decision := true";
    let new = Bench::on(policy, &config(policy), old.state.clone(), Metrics::new()).unwrap();
    let decided = new.ask(&question).await;
    assert!(decided.0.allow && !is_hit(&decided));
    assert_ne!(new.decider.key(&question), old.decider.key(&question));
    // The old snapshot still answers as it did, from the shared cache.
    assert!(is_hit(&old.ask(&question).await));
}

#[tokio::test]
async fn s5_8_what_was_decided_before_an_invalidation_does_not_serve_whom_it_concerns() {
    let bench = Bench::new("decision := true");
    let question = bench.question("decision", &json!({}));
    let key = bench.decider.key(&question);
    let route = |route| Asker { token: None, route };
    let serves = |asker| bench.decider.peek(&key, &bench.now(), asker).is_some();
    bench.ask(&question).await;
    assert!(serves(route("a")) && serves(route("b")));
    bench.state.generations.raise(&Target::Route("a".to_owned()));
    assert!(!serves(route("a")) && serves(route("b")));
    let again = bench.decider.resolve(key, question.clone(), route("a")).await.unwrap();
    assert!(!is_hit(&again), "evaluated anew");
    assert!(serves(route("a")) && serves(route("b")));
    bench.state.generations.raise(&Target::Everything);
    assert!(!serves(route("a")) && !serves(route("b")));
    assert_eq!(bench.evaluations(), 2);
}
