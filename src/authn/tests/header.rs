use jsonwebtoken::Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
use serde_json::json;

use super::support::*;
use crate::model::Code;

#[tokio::test]
async fn t09_crit_is_refused_in_any_form() {
    let bench = Bench::rsa();
    for header in [
        json!({"alg": "RS256", "kid": "k1", "crit": ["x-policy"], "x-policy": 1}),
        json!({"alg": "RS256", "kid": "k1", "crit": ["b64"], "b64": false}),
        json!({"alg": "RS256", "kid": "k1", "crit": ["b64"], "b64": true}),
        json!({"alg": "RS256", "kid": "k1", "crit": []}),
        json!({"alg": "RS256", "kid": "k1", "crit": "exp"}),
        json!({"alg": "RS256", "kid": "k1", "crit": null}),
        json!({"alg": "RS256", "kid": "k1", "b64": false}),
    ] {
        let token = RSA.sign(&header, &claims());
        assert_eq!(bench.code(&token).await, Some(Code::TokenCritical), "{header}");
    }
}

#[tokio::test]
async fn s4_1_types_of_access_tokens_pass_in_any_case_and_no_others() {
    let bench = Bench::rsa();
    for (kind, passes) in [
        (json!("JWT"), true),
        (json!("jwt"), true),
        (json!("at+jwt"), true),
        (json!("application/at+jwt"), true),
        (json!("logout+jwt"), false),
        (json!("dpop+jwt"), false),
        (json!(""), false),
        (json!(null), false),
        (json!(["JWT"]), false),
    ] {
        let header = json!({"alg": "RS256", "kid": "k1", "typ": kind});
        let code = bench.code(&RSA.sign(&header, &claims())).await;
        assert_eq!(code, (!passes).then_some(Code::TokenType), "{kind}");
    }
}

#[tokio::test]
async fn only_the_issuers_algorithms_pass_never_none_never_hmac() {
    let bench = Bench::rsa();
    let body = claims().to_string();
    for alg in ["none", "None", "HS256", "RS384", "PS256", "ES256", "rs256", "", "RS257"] {
        let header = json!({"alg": alg, "kid": "k1"}).to_string();
        let token = RSA.sign_text(&header, &body);
        assert_eq!(bench.code(&token).await, Some(Code::TokenAlgorithm), "{alg}");
    }
    for header in [json!({"kid": "k1"}), json!({"alg": ["RS256"], "kid": "k1"})] {
        let token = RSA.sign(&header, &claims());
        assert_eq!(bench.code(&token).await, Some(Code::TokenAlgorithm), "{header}");
    }
    let kid = RSA.sign(&json!({"alg": "RS256", "kid": 1}), &claims());
    assert_eq!(bench.code(&kid).await, Some(Code::TokenMalformed));
}

#[tokio::test]
async fn every_supported_algorithm_verifies() {
    let mut config = config(&[RSA.jwk("r"), EC.jwk("p"), EC_384.jwk("q"), ED.jwk("e")]);
    config["algorithms"] =
        json!(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]);
    let bench = Bench::new(&[config]);
    let body = claims().to_string();
    for (signer, kid, algorithm) in [
        (&*RSA, "r", RS256),
        (&*RSA, "r", RS384),
        (&*RSA, "r", RS512),
        (&*RSA, "r", PS256),
        (&*RSA, "r", PS384),
        (&*RSA, "r", PS512),
        (&*EC, "p", ES256),
        (&*EC_384, "q", ES384),
        (&*ED, "e", EdDSA),
    ] {
        let header = json!({"alg": format!("{algorithm:?}"), "kid": kid}).to_string();
        let token = signer.sign_as(algorithm, &header, &body);
        assert_eq!(bench.code(&token).await, None, "{algorithm:?}");
    }
    let crossed = RSA.sign_text(r#"{"alg":"ES256","kid":"r"}"#, &body);
    assert_eq!(bench.code(&crossed).await, Some(Code::TokenAlgorithm));
    let lying = RSA.sign_text(r#"{"alg":"PS256","kid":"r"}"#, &body);
    assert_eq!(bench.code(&lying).await, Some(Code::TokenSignature));
}

#[tokio::test]
async fn a_token_has_one_spelling_and_strict_json() {
    let bench = Bench::rsa();
    let good = RSA.token("k1", &claims());
    let parts: Vec<_> = good.split('.').collect();
    let (header, payload, signature) = (parts[0], parts[1], parts[2]);
    for token in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        format!("{header}.{payload}"),
        format!("{header}.{payload}."),
        format!("{good}."),
        format!("{good}.{signature}"),
        format!("{good}="),
        format!("{good} "),
        format!("{good}\n"),
        format!("{header}=.{payload}.{signature}"),
        format!("{header}.{payload}.{}", signature.split_at(signature.len() - 1).0),
        format!("{header}.€.{signature}"),
        format!("{}.{payload}.{signature}", b64(b"[]")),
        format!("{}.{payload}.{signature}", b64(b"{")),
    ] {
        assert_eq!(bench.code(&token).await, Some(Code::TokenMalformed), "{token}");
    }
    let head = r#"{"alg":"RS256","kid":"k1"}"#;
    let twice = claims().to_string().replacen('{', r#"{"sub":"u-admin","#, 1);
    let deep = claims().to_string().replacen(
        '{',
        &format!(r#"{{"x":{}{},"#, "[".repeat(40), "]".repeat(40)),
        1,
    );
    for body in [twice, deep, "[]".to_owned(), claims().to_string() + "{}"] {
        let token = RSA.sign_text(head, &body);
        assert_eq!(bench.code(&token).await, Some(Code::TokenMalformed), "{body}");
    }
    let twice = RSA.sign_text(r#"{"alg":"none","alg":"RS256","kid":"k1"}"#, &claims().to_string());
    assert_eq!(bench.code(&twice).await, Some(Code::TokenMalformed));
    let changed = claims().to_string().replace("u-alice", "u-admin");
    let forged = format!("{header}.{}.{signature}", b64(changed.as_bytes()));
    assert_eq!(bench.code(&forged).await, Some(Code::TokenSignature));
    assert_eq!(bench.code(&good).await, None);
}

#[tokio::test]
async fn s4_1_a_token_beyond_16_kib_is_not_looked_at() {
    let bench = Bench::rsa();
    let sized = |bytes: usize| RSA.token("k1", &with(claims(), "pad", json!("x".repeat(bytes))));
    assert_eq!(bench.code(&sized(11_000)).await, None);
    assert_eq!(bench.code(&sized(12_400)).await, Some(Code::TokenTooLarge));
}
