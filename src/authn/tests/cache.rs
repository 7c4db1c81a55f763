use serde_json::json;

use super::support::*;
use crate::model::{CacheState, Code, Demand, Digest};
use crate::store::Target;

#[tokio::test]
async fn s4_2_a_verified_token_is_verified_once_until_its_ttl() {
    let bench = Bench::with_tokens(&[config(&[RSA.jwk("k1")])], &json!({"cache_ttl": "20s"}));
    let token = RSA.token("k1", &claims());
    assert!(bench.peek(&token).is_none());
    let (first, from) = bench.ask(&token, &Demand::default()).await.unwrap();
    assert_eq!(from, CacheState::Miss);
    bench.advance(19);
    let (second, from) = bench.peek(&token).unwrap().unwrap();
    assert_eq!(from, CacheState::Hit);
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    bench.advance(1);
    assert!(bench.peek(&token).is_none());
    assert_eq!(bench.code(&token).await, None);
}

#[tokio::test]
async fn c07_a_cached_token_ends_with_its_exp_and_leeway() {
    let mut config = config(&[RSA.jwk("k1")]);
    config["leeway"] = json!("2s");
    let bench = Bench::new(&[config]);
    let token = RSA.token("k1", &with(claims(), "exp", json!(START + 3)));
    assert_eq!(bench.code(&token).await, None);
    bench.advance(4);
    assert_eq!(bench.code(&token).await, None, "within the leeway");
    bench.advance(1);
    assert!(bench.peek(&token).is_none());
    assert_eq!(bench.code(&token).await, Some(Code::TokenExpired));
}

#[tokio::test]
async fn c07_two_tokens_of_one_subject_keep_their_own_claims() {
    let mut config = config(&[RSA.jwk("k1")]);
    config["claims"] = json!(["role"]);
    let bench = Bench::new(&[config]);
    let admin = RSA.token("k1", &with(claims(), "role", json!("admin")));
    let plain = RSA.token("k1", &claims());
    let (admin, _) = bench.ask(&admin, &Demand::default()).await.unwrap();
    let (plain, _) = bench.ask(&plain, &Demand::default()).await.unwrap();
    assert!(admin.claims.json().contains("role") && plain.claims.json() == "{}");
    assert_ne!(admin.hash, plain.hash);
}

#[tokio::test]
async fn s4_2_a_hit_checks_nbf_again() {
    let bench = Bench::rsa();
    let token = RSA.token("k1", &with(claims(), "nbf", json!(START + 60)));
    assert_eq!(bench.code(&token).await, None);
    let mut set_back = bench.clock.now();
    set_back.unix_nanos -= 1;
    let refusal = bench.verifier_peek(&token, &set_back).unwrap().err().unwrap();
    assert_eq!(refusal.code, Code::TokenNotYetValid);
}

#[tokio::test]
async fn s4_2_rejections_are_remembered_where_they_will_hold() {
    let bench = Bench::rsa();
    let good = RSA.token("k1", &claims());
    let forged = RSA_2.token("k1", &claims());
    let malformed = good.replacen('.', ".e30", 1);
    let expired = RSA.token("k1", &with(claims(), "exp", json!(START - 100)));
    let elsewhere = RSA.token("k1", &with(claims(), "aud", json!("other")));
    for token in [&forged, &malformed, &expired, &elsewhere] {
        let code = bench.code(token).await.unwrap();
        assert_eq!(bench.peek(token).unwrap().err().unwrap().code, code);
    }
    bench.advance(30);
    assert!(bench.peek(&expired).is_none());

    let unknown = RSA.token("k2", &claims());
    let early = RSA.token("k1", &with(claims(), "nbf", json!(START + 3600)));
    for token in [&unknown, &early] {
        assert!(bench.code(token).await.is_some());
        assert!(bench.peek(token).is_none());
    }
}

#[tokio::test]
async fn s4_2_the_hash_covers_the_verifiers_configuration() {
    let token = RSA.token("k1", &claims());
    let one = config(&[RSA.jwk("k1")]);
    let mut two = one.clone();
    two["audiences"] = json!(["orders-api", "more"]);
    let mut hashes = Vec::new();
    for config in [one.clone(), one, two] {
        let bench = Bench::new(&[config]);
        let (verified, _) = bench.ask(&token, &Demand::default()).await.unwrap();
        hashes.push(verified.hash);
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[tokio::test]
async fn a05_no_refusal_shows_the_token() {
    let bench = Bench::rsa();
    for token in ["marker", "marker.marker.marker"] {
        let refusal = bench.ask(token, &Demand::default()).await.err().unwrap();
        assert!(!format!("{refusal} {refusal:?}").contains("marker"));
    }
    let good = bench.ask(&RSA.token("k1", &claims()), &Demand::default()).await.unwrap();
    assert!(!format!("{:?}", good.0).contains(&RSA.token("k1", &claims())));
    assert!(!format!("{:?}", bench.verifier).contains("kty"));
}

#[tokio::test]
async fn s5_8_an_invalidated_token_is_verified_again_and_others_are_not() {
    let bench = Bench::rsa();
    let (one, two) = (
        RSA.token("k1", &with(claims(), "sub", json!("one"))),
        RSA.token("k1", &with(claims(), "sub", json!("two"))),
    );
    let bad = with(claims(), "aud", json!("another"));
    let bad = RSA.token("k1", &bad);
    let issuer = claims()["iss"].as_str().unwrap().to_owned();
    for (target, ended) in [
        (Target::Token(Digest::plain(one.as_bytes())), [true, false]),
        (Target::User(Digest::of_user(&issuer, "one")), [true, false]),
        (Target::User(Digest::of_user("https://another.test", "one")), [false, false]),
        (Target::Issuer(issuer.clone()), [true, true]),
        (Target::Everything, [true, true]),
    ] {
        for token in [&one, &two] {
            assert_eq!(bench.code(token).await, None);
            assert!(bench.peek(token).is_some());
        }
        assert!(bench.code(&bad).await.is_some() && bench.peek(&bad).is_some());
        bench.generations.raise(&target);
        assert_eq!([&one, &two].map(|t| bench.peek(t).is_none()), ended, "{target:?}");
        assert!(bench.peek(&bad).is_none(), "a rejection is looked at again");
    }
}
