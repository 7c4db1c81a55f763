//! Exactly one event per Check, whatever happens around it.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;

use super::*;
use crate::model::Refusal;

struct Direct {
    gate: Gate,
    metrics: Arc<Metrics>,
    audit: Audit,
    kept: Kept,
}

impl Direct {
    fn new() -> Self {
        let (metrics, kept) = (Arc::new(Metrics::new()), Kept::default());
        let audit = Audit::to_stream(Box::new(kept.clone()), 64, metrics.clone()).unwrap();
        let (clock, decide) = (Clock::system(), Arc::new(Fake));
        let (limits, budget) = (Limits::default(), CheckBudget::default());
        let gate = Gate::new(decide, clock, metrics.clone(), audit.clone(), &limits, &budget, []);
        Self { gate, metrics, audit, kept }
    }

    fn events(&self) -> Vec<Value> {
        assert!(self.audit.flush(Instant::now() + Duration::from_secs(5)));
        let text = String::from_utf8(self.kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn request(path: &str) -> Request {
    Request { target: path.as_bytes().to_vec().into(), ..Request::default() }
}

fn received(path: &str) -> std::future::Ready<Result<Request, Refusal>> {
    std::future::ready(Ok(request(path)))
}

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Allow(allow) => allow.reason.to_string(),
        Outcome::Deny(deny) => deny.reason.to_string(),
        Outcome::Unavailable(unavailable) => unavailable.reason.to_string(),
    }
}

#[tokio::test]
async fn o04_a_panic_while_rendering_is_a_denial_and_told_as_one() {
    let direct = Direct::new();
    let calls = AtomicUsize::new(0);
    let render = |outcome: &Outcome, _: &super::super::Facts| {
        assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "planted");
        reason(outcome)
    };
    let answer = direct.gate.check(received("/a"), None, &HeaderMap::new(), render).await;
    assert_eq!(answer, "internal_error");
    let events = direct.events();
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["outcome"], &events[0]["status"]), (&"deny".into(), &500.into()));
    assert_eq!(direct.metrics.panics.get(), 1);
}

#[tokio::test]
async fn s8_4_a_check_dropped_before_its_request_came_is_told_as_cancelled() {
    let direct = Direct::new();
    let never = std::future::pending();
    let metadata = HeaderMap::new();
    let check = direct.gate.check(never, None, &metadata, |outcome, _| reason(outcome));
    let cut = tokio::time::timeout(Duration::from_millis(20), check).await;
    assert!(cut.is_err());
    let events = direct.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["reason"], "cancelled");
    assert_eq!(direct.metrics.in_flight.get(), 0);
}

#[tokio::test]
async fn a_request_that_never_comes_whole_meets_the_deadline() {
    let direct = Direct::new();
    let never = std::future::pending();
    let answer =
        direct.gate.check(never, None, &HeaderMap::new(), |outcome, _| reason(outcome)).await;
    assert_eq!(answer, "deadline_exceeded");
}

#[tokio::test]
async fn a_caller_without_time_is_answered_all_the_same() {
    let direct = Direct::new();
    let render = |outcome: &Outcome, _: &super::super::Facts| reason(outcome);
    let warm =
        direct.gate.check(received("/a"), Some(Duration::ZERO), &HeaderMap::new(), render).await;
    assert_eq!(warm, "public_route", "what needs no waiting is decided");
    let cold = direct
        .gate
        .check(received("/slow?50"), Some(Duration::ZERO), &HeaderMap::new(), render)
        .await;
    assert_eq!(cold, "deadline_exceeded");
}

#[tokio::test]
async fn every_check_has_an_id_of_its_own() {
    let direct = Direct::new();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..50 {
        let id = |_: &Outcome, facts: &super::super::Facts| facts.record.check_id.clone();
        assert!(ids.insert(direct.gate.check(received("/a"), None, &HeaderMap::new(), id).await));
    }
    let told: std::collections::HashSet<_> =
        direct.events().iter().map(|e| e["check_id"].as_str().unwrap().into()).collect();
    assert_eq!(told, ids);
}
