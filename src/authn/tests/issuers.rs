use std::sync::Arc;

use serde_json::json;

use super::support::*;
use crate::model::{Code, Demand};

const OTHER: &str = "https://idp.example.test/b";

/// Issuer `main` signs with one key for audience `orders-api`, issuer `other` with another.
fn two() -> Bench {
    let mut other = config(&[RSA_2.jwk("k1")]);
    other["name"] = json!("other");
    other["issuer"] = json!(OTHER);
    other["audiences"] = json!(["orders-api", "billing-api"]);
    Bench::new(&[config(&[RSA.jwk("k1")]), other])
}

fn demand(issuer: &str, audience: &str) -> Demand {
    let (issuers, audiences) = (vec![issuer.into()], vec![audience.into()]);
    Demand { issuers, audiences, scopes: Vec::new() }
}

#[tokio::test]
async fn keys_belong_to_their_issuer() {
    let bench = two();
    let ours = with(claims(), "iss", json!(OTHER));
    assert_eq!(bench.code(&RSA_2.token("k1", &ours)).await, None);
    assert_eq!(bench.code(&RSA.token("k1", &ours)).await, Some(Code::TokenSignature));
    assert_eq!(bench.code(&RSA_2.token("k1", &claims())).await, Some(Code::TokenSignature));
}

#[tokio::test]
async fn s4_1_the_issuer_is_one_string_exactly() {
    let bench = two();
    for issuer in [
        "https://idp.example.test/a/",
        "https://idp.example.test/A",
        "HTTPS://idp.example.test/a",
        "https://idp.example.test/",
        "",
    ] {
        let token = RSA.token("k1", &with(claims(), "iss", json!(issuer)));
        assert_eq!(bench.code(&token).await, Some(Code::TokenIssuer), "{issuer}");
    }
}

#[tokio::test]
async fn c01_a_routes_demand_holds_whatever_another_route_primed() {
    let x = demand("main", "orders-api");
    let y = demand("other", "billing-api");
    let token = RSA.token("k1", &claims());
    let of_x = |demand: &Demand| demand.issuers == x.issuers;
    for first_x in [true, false] {
        let bench = Arc::new(two());
        let order = if first_x { [&x, &y] } else { [&y, &x] };
        for demand in order {
            let asks = (0..20).map(|_| bench.ask(&token, demand));
            for answer in futures_util::future::join_all(asks).await {
                let code = answer.err().map(|refusal| refusal.code);
                let want = (!of_x(demand)).then_some(Code::TokenIssuer);
                assert_eq!(code, want);
            }
        }
        assert!(bench.ask(&token, &x).await.is_ok(), "a refusal elsewhere poisons nothing");
    }
}

#[tokio::test]
async fn s4_2_a_hit_is_held_against_audiences_and_scopes_of_the_route() {
    let bench = two();
    let both = json!(["orders-api", "billing-api"]);
    let mut claims = with(claims(), "aud", both);
    claims["scope"] = json!("read");
    let token = RSA.token("k1", &claims);
    assert!(bench.ask(&token, &demand("main", "billing-api")).await.is_ok());
    let code = |answer: Result<_, crate::model::Refusal>| answer.err().map(|r| r.code);
    let elsewhere = bench.ask(&token, &demand("main", "stock-api")).await.map(|_| ());
    assert_eq!(code(elsewhere), Some(Code::TokenAudience));
    let write = Demand { scopes: vec!["write".into()], ..Demand::default() };
    let unscoped = bench.ask(&token, &write).await.map(|_| ());
    assert_eq!(code(unscoped), Some(Code::InsufficientScope));
    let read = Demand { scopes: vec!["read".into()], ..Demand::default() };
    assert!(bench.ask(&token, &read).await.is_ok());
}
