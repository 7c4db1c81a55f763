//! What callers can bring about at an OPA that works: it opens no route.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::Opa;
use super::*;
use crate::dependency::stub::{Reply, Stub};

/// Entry points `decision` and `other` of an OPA.
struct Server {
    decider: Opa,
    now: Now,
}

impl Server {
    fn new(url: &str, more: &Value) -> Self {
        let mut opa = json!({"url": url});
        opa.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let entry = |name: &str| json!({"name": name, "rule": format!("data.p.{name}")});
        let config = json!({
            "engine": "opa", "opa": opa, "entry_points": [entry("decision"), entry("other")],
        });
        let config: PolicyConfig = serde_json::from_value(config).unwrap();
        let metrics = Arc::new(Metrics::new());
        let state = PolicyState::new(&config, &metrics, Arc::default()).unwrap();
        let finish: Arc<dyn Finish> = Arc::new(Plain::default());
        let decider = Opa::new(&config, &finish, state, &metrics, Path::new("/")).unwrap();
        Self { decider, now: Clock::manual(1_700_000_000).now() }
    }

    /// What a caller at an open route gets: the code of the decision, or of the refusal.
    async fn ask(&self, entry: &str, path: usize) -> Code {
        let input = Input {
            identity: Fragment::new(&json!({"method": "none"})),
            user: None,
            token: None,
            resource: None,
            action: None,
            context: json!({"path": format!("/{path}")}).to_string().into(),
        };
        let question = Question {
            entry_point: entry.into(),
            door: Door::Check,
            input,
            now: self.now,
            cap: None,
            uncached: false,
            open: true,
        };
        let key = self.decider.key(&question);
        match self.decider.resolve(key, question, Asker::default()).await {
            Ok((decision, state)) => {
                assert_eq!(state == CacheState::Open, decision.allow, "nothing else allows");
                if decision.allow { Code::PolicyOpen } else { Code::PolicyDenied }
            }
            Err(refusal) => refusal.code,
        }
    }
}

fn denial() -> Reply {
    Reply::json(200, r#"{"result": false}"#)
}

#[tokio::test]
async fn s3_6_more_callers_than_places_at_an_opa_that_denies_open_nothing() {
    let stub = Stub::start(|_| denial().after(Duration::from_millis(150))).await;
    let server = Server::new(&stub.origin, &json!({"timeout": "250ms", "max_in_flight": 4}));
    for round in 0..3 {
        let all = (0..32).map(|n| server.ask("decision", round * 100 + n));
        let codes = futures_util::future::join_all(all).await;
        assert!(codes.iter().all(|code| *code != Code::PolicyOpen), "{codes:?}");
    }
}

#[tokio::test]
async fn s3_6_a_slow_input_opens_nothing_and_takes_opa_from_nobody() {
    let after = |target: &str| {
        if target.contains("other") { Duration::from_hours(1) } else { Duration::ZERO }
    };
    let stub = Stub::start(move |got| denial().after(after(&got.target))).await;
    let server = Server::new(&stub.origin, &json!({"timeout": "300ms"}));
    for _ in 0..20 {
        assert_eq!(server.ask("other", 1).await, Code::PolicyUnavailable);
    }
    assert!(stub.calls() >= 20, "it went on being called: {}", stub.calls());
    let began = std::time::Instant::now();
    loop {
        // A loaded machine may be slow to answer, too.
        match server.ask("decision", 2).await {
            Code::PolicyDenied => break,
            code => assert_eq!(code, Code::PolicyUnavailable),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "others are not answered");
    }
}

#[tokio::test]
async fn s3_6_many_slow_inputs_stop_the_calls_and_open_nothing() {
    let stub = Stub::start(|_| denial().after(Duration::from_hours(1))).await;
    let server = Server::new(&stub.origin, &json!({"timeout": "200ms"}));
    for path in 0..12 {
        assert_eq!(server.ask("decision", path).await, Code::PolicyUnavailable, "{path}");
    }
    assert!(stub.calls() < 12, "it is not called for a while");
}

#[tokio::test]
async fn s3_6_statuses_that_one_caller_may_bring_about_open_nothing() {
    let cancelled = r#"{"code":"internal_error","errors":[{"code":"eval_cancel_error"}]}"#;
    for (status, body) in [
        (429, "{}"),
        (408, "{}"),
        (401, "{}"),
        (404, "{}"),
        (302, ""),
        (504, ""),
        (500, cancelled),
        (200, "no JSON"),
    ] {
        let stub = Stub::start(move |_| Reply::json(status, body)).await;
        let server = Server::new(&stub.origin, &json!({"timeout": "5s"}));
        for path in 0..8 {
            let code = server.ask("decision", path).await;
            assert_eq!(code, Code::PolicyUnavailable, "{status} {body}");
        }
    }
}

#[tokio::test]
async fn s8_1_an_opa_that_fails_opens_and_so_does_what_follows_until_it_is_back() {
    let fails = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&fails);
    let stub =
        Stub::start(
            move |_| {
                if now.load(Ordering::SeqCst) { Reply::json(503, "{}") } else { denial() }
            },
        )
        .await;
    let server = Server::new(&stub.origin, &json!({"timeout": "5s"}));
    for path in 0..12 {
        assert_eq!(server.ask("decision", path).await, Code::PolicyOpen, "{path}");
    }
    assert!(stub.calls() < 12, "it is not called for a while");
    fails.store(false, Ordering::SeqCst);
    let began = std::time::Instant::now();
    while server.ask("decision", 100).await != Code::PolicyDenied {
        assert!(began.elapsed() < Duration::from_secs(20), "it stays open");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
