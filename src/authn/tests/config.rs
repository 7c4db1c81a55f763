use serde_json::{Value, json};

use super::super::{IssuerConfig, TokensConfig, issuer_problems};
use super::support::{issuer, with, without};

fn good() -> Value {
    json!({
        "name": "main", "issuer": "https://idp.example.test/a", "audiences": ["orders-api"],
        "keys": { "discovery": true },
    })
}

fn pointers(configs: &[Value]) -> Vec<String> {
    let configs: Vec<IssuerConfig> = configs.iter().cloned().map(issuer).collect();
    issuer_problems(&configs).into_iter().map(|problem| problem.pointer).collect()
}

#[test]
fn defaults_are_those_of_the_rules() {
    let config = issuer(good());
    assert!(config.problems().is_empty());
    assert_eq!(config.algorithms, ["RS256"]);
    assert_eq!(config.leeway.to_string(), "1m");
    assert!(config.clients.is_none() && config.required);
    assert_eq!(config.keys.last_good_for.to_string(), "1d");
    let tokens: TokensConfig = serde_json::from_str("{}").unwrap();
    assert_eq!(tokens.max_size.to_string(), "16KiB");
    assert!(tokens.problems().is_empty());
}

#[test]
fn each_mistake_is_named_where_it_is() {
    let set = |name: &str, value: Value| with(good(), name, value);
    let keys = |value: Value| with(good(), "keys", value);
    for (config, pointer) in [
        (set("name", json!("")), "/0/name"),
        (set("name", json!("a b")), "/0/name"),
        (set("issuer", json!("")), "/0/issuer"),
        (set("audiences", json!([])), "/0/audiences"),
        (set("audiences", json!("any")), "/0/audiences"),
        (set("audiences", json!(["a", "a"])), "/0/audiences/1"),
        (set("audiences_any_reason", json!("x")), "/0/audiences_any_reason"),
        (set("algorithms", json!([])), "/0/algorithms"),
        (set("algorithms", json!(["RS256", "none"])), "/0/algorithms/1"),
        (set("algorithms", json!(["HS256"])), "/0/algorithms/0"),
        (set("algorithms", json!(["ES512"])), "/0/algorithms/0"),
        (set("clients", json!([])), "/0/clients"),
        (set("clients", json!([""])), "/0/clients/0"),
        (set("leeway", json!("6m")), "/0/leeway"),
        (keys(json!({})), "/0/keys"),
        (keys(json!({"discovery": true, "file": "a"})), "/0/keys"),
        (keys(json!({"jwks_uri": "https://a.test/", "file": "a"})), "/0/keys"),
        (keys(json!({"jwks_uri": "http://a.test/"})), "/0/keys/jwks_uri"),
        (keys(json!({"jwks_uri": "a"})), "/0/keys/jwks_uri"),
        (keys(json!({"file": "a", "cooldown": "0s"})), "/0/keys/cooldown"),
        (keys(json!({"file": "a", "refresh_min": "2h"})), "/0/keys/refresh_max"),
        (keys(json!({"file": "a", "refresh_min": "10ms"})), "/0/keys/refresh_min"),
        (keys(json!({"file": "a", "last_good_for": "25h"})), "/0/keys/last_good_for"),
        (
            keys(json!({"file": "a", "insecure_urls": [
                {"url": "http://a.test/", "insecure": true, "reason": ""}
            ]})),
            "/0/keys/insecure_urls/0",
        ),
    ] {
        let found = pointers(std::slice::from_ref(&config));
        assert!(found.iter().any(|found| found == pointer), "{config}: {found:?}");
    }
    let plain = set("issuer", json!("http://idp.example.test/a"));
    assert!(pointers(&[plain])[0].starts_with("/0/"));
    let listed = json!({"jwks_uri": "http://a.test/keys", "insecure_urls": [
        {"url": "http://a.test/keys", "insecure": true, "reason": "inside the mesh"}
    ]});
    assert!(pointers(&[keys(listed)]).is_empty());
    let any = with(set("audiences", json!("any")), "audiences_any_reason", json!("no audiences"));
    assert!(pointers(&[any]).is_empty());
}

#[test]
fn two_issuers_have_two_names_and_two_urls_and_all_is_said_at_once() {
    let second = with(good(), "leeway", json!("1h"));
    assert_eq!(pointers(&[good(), second]), ["/1/leeway", "/1/name", "/1/issuer"]);
}

#[test]
fn unknown_and_missing_keys_are_refused() {
    assert!(serde_json::from_value::<IssuerConfig>(with(good(), "audience", json!("a"))).is_err());
    assert!(serde_json::from_value::<IssuerConfig>(without(good(), "audiences")).is_err());
    let all = with(good(), "audiences", json!("all"));
    assert!(serde_json::from_value::<IssuerConfig>(all).is_err());
}
