use serde_json::json;

use super::support::*;
use crate::model::Demand;
use crate::store::measured::{ENTRIES, apart, resident, truthful};

#[test]
fn a_cached_token_takes_what_is_accounted() {
    apart("authn::tests::memory::measured");
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn measured() {
    let mut config = config(&[ED.jwk("k1")]);
    config["algorithms"] = json!(["EdDSA"]);
    config["claims"] = json!(["preferred_username", "realm_access"]);
    let bench = Bench::with_tokens(&[config], &json!({"cache": "256MiB"}));
    let tokens: Vec<String> = (0..=ENTRIES)
        .map(|n| {
            let mut claims = claims();
            claims["sub"] = json!(format!("{n:08}-5f0c-4a8e-9d2b-000000000000"));
            claims["client_id"] = json!("lake-data-api");
            claims["scope"] = json!("openid profile email");
            claims["preferred_username"] = json!(format!("user.{n:08}"));
            ED.token("k1", &claims)
        })
        .collect();
    assert_eq!(bench.code(&tokens[0]).await, None);
    let cache = bench.verifier.verified().clone();
    cache.clear();
    let before = resident();
    for token in &tokens[1..] {
        bench.ask(token, &Demand::default()).await.unwrap();
    }
    truthful("token", &cache, resident() - before);
}
