//! A reload: the next verifier in the place of one that serves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::*;
use super::support::*;
use crate::dependency::stub::{Reply, Stub};
use crate::model::{CacheState, Code, Demand};

/// The bench with another verifier in the place of its own.
fn next(bench: &Bench, configs: &[Value]) -> Bench {
    let issuers: Vec<_> = configs.iter().cloned().map(issuer).collect();
    let (tokens, base) = (serde_json::from_value(json!({})).unwrap(), std::env::temp_dir());
    let (before, clock, metrics) = (Some(&*bench.verifier), &bench.clock, &bench.metrics);
    let generations = Arc::clone(&bench.generations);
    let shown = (metrics, &generations);
    let verifier = Verifier::succeeding(before, &issuers, &tokens, &base, clock, shown).unwrap();
    let (clock, metrics) = (bench.clock.clone(), Arc::clone(&bench.metrics));
    Bench { verifier: Arc::new(verifier), clock, metrics, generations }
}

struct Idp {
    stub: Stub,
    reply: Arc<Mutex<Reply>>,
}

impl Idp {
    async fn start() -> Self {
        let keys = json!({ "keys": [RSA.jwk("k1")] }).to_string();
        let reply = Arc::new(Mutex::new(Reply::json(200, keys)));
        let answer = Arc::clone(&reply);
        let stub = Stub::start(move |_| answer.lock().unwrap().clone()).await;
        Self { stub, reply }
    }

    fn config(&self) -> Value {
        let keys = json!({ "jwks_uri": self.stub.origin });
        json!({ "name": "main", "issuer": ISSUER, "audiences": ["orders-api"], "keys": keys })
    }

    fn goes_down(&self) {
        *self.reply.lock().unwrap() = Reply::json(500, "{}".to_owned());
    }
}

async fn warm(idp: &Idp) -> Bench {
    let bench = Bench::new(&[idp.config()]);
    let (verifier, stop) = (Arc::clone(&bench.verifier), CancellationToken::new());
    let guard = stop.clone().drop_guard();
    tokio::spawn(async move { verifier.run(stop).await });
    for _ in 0..500 {
        if bench.verifier.ready() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(guard);
    bench
}

#[tokio::test]
async fn a_reload_while_the_issuer_is_down_loses_no_key() {
    let idp = Idp::start().await;
    let bench = warm(&idp).await;
    let token = RSA.token("k1", &claims());
    assert_eq!(bench.code(&token).await, None);
    idp.goes_down();
    for change in [
        json!({}),
        json!({ "audiences": ["orders-api", "more"] }),
        json!({ "name": "renamed" }),
        json!({ "required": false }),
        json!({ "keys": { "jwks_uri": idp.stub.origin, "cooldown": "7s" } }),
    ] {
        let mut config = idp.config();
        for (name, value) in change.as_object().unwrap() {
            config[name] = value.clone();
        }
        let after = next(&bench, &[config]);
        assert_eq!(after.verifier.waits_for(), None, "{change}");
        assert!(after.verifier.ready(), "{change}");
        assert_eq!(after.code(&token).await, None, "{change}");
        let other = RSA.token("k1", &with(claims(), "jti", json!(change.to_string())));
        assert_eq!(after.code(&other).await, None, "a token that nobody saw: {change}");
    }
}

#[tokio::test]
async fn keys_of_one_source_do_not_serve_for_another() {
    let (idp, other) = (Idp::start().await, Idp::start().await);
    let bench = warm(&idp).await;
    other.goes_down();
    let token = RSA.token("k1", &claims());
    assert_eq!(bench.code(&token).await, None);
    let after = next(&bench, &[other.config()]);
    assert_eq!(after.verifier.waits_for().as_deref(), Some("main"));
    assert_eq!(after.code(&token).await, Some(Code::KeysUnavailable));
}

#[tokio::test]
async fn an_issuer_that_never_had_keys_holds_up_no_reload() {
    let idp = Idp::start().await;
    idp.goes_down();
    let bench = Bench::new(&[idp.config()]);
    assert_eq!(bench.verifier.waits_for().as_deref(), Some("main"));
    let after = next(&bench, &[idp.config()]);
    assert_eq!(after.verifier.waits_for(), None);
    assert!(!after.verifier.ready());
}

#[tokio::test]
async fn c01_what_was_verified_stays_so_under_the_same_configuration_only() {
    let config = config(&[RSA.jwk("k1")]);
    let bench = Bench::new(std::slice::from_ref(&config));
    let token = RSA.token("k1", &claims());
    assert_eq!(bench.code(&token).await, None);
    let same = next(&bench, std::slice::from_ref(&config));
    let peeked = same.peek(&token).expect("kept").unwrap();
    assert_eq!(peeked.1, CacheState::Hit);
    let stricter = with(config.clone(), "audiences", json!(["another"]));
    let after = next(&same, &[stricter]);
    assert!(after.peek(&token).is_none());
    assert_eq!(after.code(&token).await, Some(Code::TokenAudience));
    // Back again: neither the old rejection nor its absence matters.
    assert_eq!(next(&after, &[config]).code(&token).await, None);
}

#[tokio::test]
async fn a_key_that_left_the_file_takes_what_it_verified_along() {
    let config = config(&[RSA.jwk("k1"), RSA_2.jwk("k2")]);
    let path = config["keys"]["file"].as_str().unwrap().to_owned();
    let bench = Bench::new(std::slice::from_ref(&config));
    let (one, two) = (RSA.token("k1", &claims()), RSA_2.token("k2", &claims()));
    assert_eq!((bench.code(&one).await, bench.code(&two).await), (None, None));
    std::fs::write(&path, json!({ "keys": [RSA_2.jwk("k2")] }).to_string()).unwrap();
    let after = next(&bench, &[config]);
    assert_eq!(after.code(&one).await, Some(Code::TokenKeyUnknown));
    let kept = after.ask(&two, &Demand::default()).await.unwrap();
    assert_eq!(kept.1, CacheState::Hit, "the other key stayed");
    // The verifier that still serves is as it was.
    assert_eq!(bench.code(&two).await, None);
}
