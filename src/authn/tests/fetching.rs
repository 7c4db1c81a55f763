use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::*;
use crate::dependency::stub::{Got, Reply, Stub};
use crate::model::{Code, Demand};

/// An issuer's key server, whose answer a test changes.
struct Idp {
    stub: Stub,
    reply: Arc<Mutex<Reply>>,
}

fn set(keys: &[Value]) -> Reply {
    Reply::json(200, json!({ "keys": keys }).to_string())
}

impl Idp {
    async fn start(reply: Reply) -> Self {
        let reply = Arc::new(Mutex::new(reply));
        let answer = Arc::clone(&reply);
        let stub = Stub::start(move |_| answer.lock().unwrap().clone()).await;
        Self { stub, reply }
    }

    fn answer(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }

    /// Configuration with these settings of `keys` beside the URL.
    fn config(&self, keys: Value) -> Value {
        let keys = with(keys, "jwks_uri", json!(self.stub.origin));
        json!({ "name": "main", "issuer": ISSUER, "audiences": ["orders-api"], "keys": keys })
    }
}

/// Runs the background work until the guard is dropped.
fn run(bench: &Bench) -> tokio_util::sync::DropGuard {
    let (verifier, shutdown) = (Arc::clone(&bench.verifier), CancellationToken::new());
    let token = shutdown.clone();
    tokio::spawn(async move { verifier.run(token).await });
    shutdown.drop_guard()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// A verifier of `idp`'s keys that has them.
async fn warm(idp: &Idp, keys: Value) -> (Bench, tokio_util::sync::DropGuard) {
    let bench = Bench::new(&[idp.config(keys)]);
    assert!(!bench.verifier.ready());
    let running = run(&bench);
    until("ready", || bench.verifier.ready()).await;
    (bench, running)
}

fn error(bench: &Bench) -> Option<Arc<str>> {
    bench.verifier.states()[0].last_error.clone()
}

#[tokio::test]
async fn keys_are_warm_before_ready_and_the_run_ends_when_told() {
    let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
    let (bench, running) = warm(&idp, json!({})).await;
    assert_eq!(bench.code(&RSA.token("k1", &claims())).await, None);
    let state = &bench.verifier.states()[0];
    assert_eq!((&*state.name, state.keys, state.required), ("main", 1, true));
    assert_eq!(state.last_good.unwrap().unix_secs(), START);
    drop(running);
    let stopped = CancellationToken::new();
    stopped.cancel();
    bench.verifier.run(stopped).await;
    let fromfile = Bench::rsa();
    assert!(fromfile.verifier.ready(), "keys from a file need no run");
}

#[tokio::test]
async fn t07_it_starts_not_ready_while_the_issuer_is_down_and_recovers_by_itself() {
    let idp = Idp::start(Reply::json(502, "")).await;
    let bench = Bench::new(&[idp.config(json!({"refresh_min": "20ms", "cooldown": "1h"}))]);
    let _running = run(&bench);
    let token = RSA.token("k1", &claims());
    assert_eq!(bench.code(&token).await, Some(Code::KeysUnavailable));
    assert!(!bench.verifier.ready());
    assert!(bench.peek(&token).is_none(), "it is not remembered");
    idp.answer(set(&[RSA.jwk("k1")]));
    until("ready", || bench.verifier.ready()).await;
    assert_eq!(bench.code(&token).await, None);
    assert_eq!(error(&bench), None);
}

#[tokio::test]
async fn s8_2_only_required_issuers_hold_up_readiness() {
    let idp = Idp::start(Reply::json(502, "")).await;
    let optional = with(idp.config(json!({})), "required", json!(false));
    assert!(Bench::new(&[optional]).verifier.ready());
    assert!(!Bench::new(&[idp.config(json!({}))]).verifier.ready());
}

#[tokio::test]
async fn t07_a_bad_answer_never_replaces_good_keys() {
    let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
    let keys = json!({
        "refresh_min": "10ms", "refresh_max": "10ms", "timeout": "100ms", "max_response": "64KiB",
    });
    let (bench, _running) = warm(&idp, keys).await;
    let token = RSA.token("k1", &claims());
    assert_eq!(bench.code(&token).await, None);
    let large = format!(r#"{{"keys":[],"pad":"{}"}}"#, "x".repeat(1 << 20));
    for bad in [
        Reply::json(502, ""),
        Reply::json(200, "<html>").header("content-type", "text/html"),
        Reply::json(200, "{}"),
        Reply::json(200, r#"{"keys":[]}"#),
        Reply::json(200, r#"{"keys":[{"kty":"RSA","kid":"k1"}]}"#),
        Reply::json(200, large),
        Reply::json(302, "").header("location", "/elsewhere"),
        set(&[RSA.jwk("k1")]).after(Duration::from_millis(300)),
    ] {
        let shown = format!("{} {:?}", bad.status, bad.after);
        idp.answer(bad);
        until(&shown, || error(&bench).is_some()).await;
        assert!(bench.peek(&token).unwrap().is_ok(), "{shown}");
        assert!(bench.verifier.ready());
        idp.answer(set(&[RSA.jwk("k1")]));
        until("healed", || error(&bench).is_none()).await;
    }
    let shown = bench.metrics.render().unwrap();
    assert!(shown.contains(r#"dependency="jwks:main",outcome="failed""#), "{shown}");
}

#[tokio::test]
async fn t07_max_age_is_bounded_on_both_sides() {
    let idp = Idp::start(set(&[RSA.jwk("k1")]).header("cache-control", "max-age=0")).await;
    let (_, running) = warm(&idp, json!({"refresh_min": "200ms"})).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!((2..=4).contains(&idp.stub.calls()), "{}", idp.stub.calls());
    drop(running);
    let huge = "max-age=99999999999999999999";
    let idp = Idp::start(set(&[RSA.jwk("k1")]).header("cache-control", huge)).await;
    let keys = json!({"refresh_min": "10ms", "refresh_max": "100ms"});
    let (_, _running) = warm(&idp, keys).await;
    until("fetched again", || idp.stub.calls() > 1).await;
}

#[tokio::test]
async fn t05_a_flood_of_unknown_kids_causes_one_fetch_per_cooldown() {
    let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
    let (bench, _running) = warm(&idp, json!({})).await;
    let valid = RSA.token("k1", &claims());
    assert_eq!(bench.code(&valid).await, None);
    for (round, reply) in [
        set(&[RSA.jwk("k1")]),
        Reply::json(200, r#"{"keys":[]}"#),
        set(&[RSA.jwk("k1")]).after(Duration::from_millis(300)),
    ]
    .into_iter()
    .enumerate()
    {
        idp.answer(reply);
        bench.advance(30);
        let before = idp.stub.calls();
        for wave in 0..10 {
            let kid = |n: usize| format!("{round}-{wave}-{n}-{}", "x".repeat(n * 200));
            let tokens: Vec<_> = (0..20).map(|n| RSA_2.token(&kid(n), &claims())).collect();
            let asks = tokens.iter().map(|token| bench.code(token));
            let flood = futures_util::future::join_all(asks);
            tokio::pin!(flood);
            let early = futures_util::poll!(flood.as_mut());
            assert!(bench.peek(&valid).unwrap().is_ok(), "valid tokens do not wait");
            let codes = match early {
                std::task::Poll::Ready(codes) => codes,
                std::task::Poll::Pending => flood.await,
            };
            let want = if round == 1 { Code::KeysUnavailable } else { Code::TokenKeyUnknown };
            assert!(codes.iter().all(|code| *code == Some(want)), "{round}: {codes:?}");
        }
        assert_eq!(idp.stub.calls() - before, 1, "round {round}");
        assert!(bench.peek(&valid).unwrap().is_ok());
    }
    let no_kid = RSA_2.sign(&json!({"alg": "RS256"}), &claims());
    bench.advance(30);
    let before = idp.stub.calls();
    assert_eq!(bench.code(&no_kid).await, Some(Code::TokenSignature));
    assert_eq!(idp.stub.calls(), before, "a token without kid causes no fetch");
}

#[tokio::test]
async fn a_new_key_is_fetched_by_the_request_that_meets_it_and_a_removed_one_dies_at_once() {
    let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
    let (bench, _running) = warm(&idp, json!({})).await;
    let old = RSA.token("k1", &claims());
    let new = RSA_2.token("k2", &claims());
    assert_eq!(bench.code(&old).await, None);
    idp.answer(set(&[RSA_2.jwk("k2")]).after(Duration::from_millis(100)));
    let hurried = tokio::time::timeout(Duration::from_millis(20), bench.code(&new)).await;
    assert!(hurried.is_err(), "a Check may leave at its own deadline");
    assert_eq!(bench.code(&new).await, None, "the next waits for the same fetch");
    assert_eq!(idp.stub.calls(), 2);
    assert!(bench.peek(&old).is_none(), "s4_2: it dies with its key");
    assert_eq!(bench.code(&old).await, Some(Code::TokenKeyUnknown));
}

#[tokio::test]
async fn s4_2_keys_that_stay_keep_their_tokens_and_new_keys_lift_rejections() {
    let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
    let keys = json!({"refresh_min": "10ms", "refresh_max": "10ms"});
    let (bench, _running) = warm(&idp, keys).await;
    let (ours, theirs) = (RSA.token("k1", &claims()), RSA_2.token("k1", &claims()));
    assert_eq!(bench.code(&ours).await, None);
    assert_eq!(bench.code(&theirs).await, Some(Code::TokenSignature));
    let calls = idp.stub.calls();
    until("refreshed", || idp.stub.calls() > calls + 2).await;
    assert!(bench.peek(&ours).unwrap().is_ok());
    assert!(bench.peek(&theirs).unwrap().is_err());
    idp.answer(set(&[RSA.jwk("k1"), RSA_2.jwk("k1")]));
    until("the rejection is lifted", || bench.peek(&theirs).is_none()).await;
    assert_eq!(bench.code(&theirs).await, None);
    assert!(bench.peek(&ours).unwrap().is_ok());
}

#[tokio::test]
async fn s4_3_a_kid_unknown_while_fetching_fails_is_unavailable() {
    let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
    let (bench, _running) = warm(&idp, json!({})).await;
    let unknown = RSA_2.token("k2", &claims());
    assert_eq!(bench.code(&unknown).await, Some(Code::TokenKeyUnknown));
    idp.answer(Reply::json(503, ""));
    bench.advance(30);
    assert_eq!(bench.code(&unknown).await, Some(Code::KeysUnavailable));
    assert_eq!(bench.code(&RSA.token("k1", &claims())).await, None);
}

#[tokio::test]
async fn s8_1_the_last_good_keys_serve_for_a_bounded_time() {
    for (last_good_for, serves) in [("24h", 24 * 3600), ("0s", 600)] {
        let idp = Idp::start(set(&[RSA.jwk("k1")])).await;
        let (bench, _running) = warm(&idp, json!({"last_good_for": last_good_for})).await;
        idp.answer(Reply::json(503, ""));
        let token = RSA.token("k1", &with(claims(), "exp", json!(START + 10 * 24 * 3600)));
        bench.advance(serves - 1);
        assert_eq!(bench.code(&token).await, None, "{last_good_for}");
        bench.advance(1);
        assert!(bench.peek(&token).is_none());
        assert_eq!(bench.code(&token).await, Some(Code::KeysUnavailable), "{last_good_for}");
        assert!(bench.verifier.ready(), "readiness does not turn false again");
        idp.answer(set(&[RSA.jwk("k1")]));
        bench.advance(30);
        assert_eq!(bench.code(&token).await, None);
    }
}

/// A discovery server that answers with `document` of its own origin.
async fn discovery(document: impl Fn(&str) -> Value + Send + Sync + 'static) -> Stub {
    Stub::start(move |got: Got| match got.target.as_str() {
        "/a/.well-known/openid-configuration" => {
            let host = got.headers.get("host").unwrap().to_str().unwrap();
            Reply::json(200, document(&format!("http://{host}")).to_string())
        }
        "/keys" => set(&[RSA.jwk("k1")]),
        _ => Reply::json(404, ""),
    })
    .await
}

fn discovered(stub: &Stub, keys: Value) -> (Bench, String) {
    let issuer = format!("{}/a", stub.origin);
    let keys = with(keys, "discovery", json!(true));
    let config = json!({
        "name": "main", "issuer": issuer, "audiences": ["orders-api"], "keys": keys,
    });
    let token = RSA.token("k1", &with(claims(), "iss", json!(issuer)));
    (Bench::new(&[config]), token)
}

#[tokio::test]
async fn s4_4_discovery_is_the_issuers_own_and_its_keys_are_on_its_host() {
    let good = |origin: &str| json!({"issuer": format!("{origin}/a"), "jwks_uri": format!("{origin}/keys"), "x": 1});
    let stub = discovery(good).await;
    let (bench, token) = discovered(&stub, json!({}));
    assert_eq!(bench.code(&token).await, None);
    assert_eq!(stub.calls(), 2);

    let documents: [fn(&str) -> Value; 6] = [
        |origin| json!({"issuer": format!("{origin}/a/"), "jwks_uri": format!("{origin}/keys")}),
        |origin| json!({"issuer": "https://other.test", "jwks_uri": format!("{origin}/keys")}),
        |origin| json!({"jwks_uri": format!("{origin}/keys")}),
        |origin| json!({"issuer": format!("{origin}/a")}),
        |origin| json!({"issuer": format!("{origin}/a"), "jwks_uri": "http://keys.test/keys"}),
        |origin| {
            let elsewhere = origin.replace("127.0.0.1", "127.0.0.2");
            json!({"issuer": format!("{origin}/a"), "jwks_uri": format!("{elsewhere}/keys")})
        },
    ];
    for (index, document) in documents.into_iter().enumerate() {
        let stub = discovery(document).await;
        let (bench, token) = discovered(&stub, json!({}));
        let code = bench.code(&token).await;
        assert_eq!(code, Some(Code::KeysUnavailable), "{index}");
        assert_eq!(stub.calls(), 1, "{index}: the keys are not asked for");
        assert!(error(&bench).is_some());
    }
}

#[tokio::test]
async fn s4_4_another_host_serves_keys_where_it_is_listed() {
    let stub = discovery(|origin| {
        let elsewhere = origin.replace("127.0.0.1", "localhost");
        json!({"issuer": format!("{origin}/a"), "jwks_uri": format!("{elsewhere}/keys")})
    })
    .await;
    let (bench, token) = discovered(&stub, json!({}));
    assert_eq!(bench.code(&token).await, Some(Code::KeysUnavailable));
    let (bench, token) = discovered(&stub, json!({"allowed_hosts": ["localhost"]}));
    assert!(bench.ask(&token, &Demand::default()).await.is_ok());
}
