use std::time::Duration;

use serde_json::{Value, json};

use super::support::*;
use crate::model::{Code, Demand};

async fn code_of(bench: &Bench, claims: &Value) -> Option<Code> {
    bench.code(&RSA.token("k1", claims)).await
}

#[tokio::test]
async fn a_good_token_becomes_identity_claims_and_scopes() {
    let mut config = config(&[RSA.jwk("k1")]);
    config["claims"] = json!(["email", "groups", "nothing", "null"]);
    let bench = Bench::new(&[config]);
    let mut claims = claims();
    claims["client_id"] = json!("web");
    claims["scope"] = json!("read  write");
    claims["email"] = json!("a@example.test");
    claims["groups"] = json!(["x"]);
    claims["null"] = Value::Null;
    claims["undeclared"] = json!("secret");
    let token = RSA.token("k1", &claims);
    let (verified, _) = bench.ask(&token, &Demand::default()).await.unwrap();
    assert_eq!(
        verified.identity_fragment().json(),
        format!(r#"{{"client_id":"web","issuer":"{ISSUER}","method":"jwt","subject":"u-alice"}}"#)
    );
    assert_eq!(verified.claims.json(), r#"{"email":"a@example.test","groups":["x"]}"#);
    assert_eq!(*verified.grant.scopes, ["read", "write"].map(Box::<str>::from));
    assert_eq!(*verified.grant.audiences, ["orders-api"].map(Box::<str>::from));
    assert_eq!(&*verified.grant.issuer_name, "main");
}

#[tokio::test]
async fn t01_a_claim_of_the_wrong_type_is_refused() {
    let bench = Bench::rsa();
    for (name, value, code) in [
        ("nbf", json!("2099-01-01"), Code::TokenClaims),
        ("nbf", json!(null), Code::TokenClaims),
        ("iat", json!("now"), Code::TokenClaims),
        ("exp", json!("never"), Code::TokenClaims),
        ("exp", json!(null), Code::TokenClaims),
        ("exp", json!([START + 300]), Code::TokenClaims),
        ("exp", json!(-1), Code::TokenExpired),
        ("exp", json!(-1.5), Code::TokenExpired),
        ("aud", json!(7), Code::TokenClaims),
        ("aud", json!(null), Code::TokenClaims),
        ("aud", json!({}), Code::TokenClaims),
        ("aud", json!({"a": 1}), Code::TokenClaims),
        ("aud", json!([]), Code::TokenClaims),
        ("aud", json!([7, "orders-api"]), Code::TokenClaims),
        ("aud", json!(["orders-api", ""]), Code::TokenClaims),
        ("iss", json!(7), Code::TokenClaims),
        ("iss", json!([]), Code::TokenClaims),
        ("iss", json!([ISSUER, "https://other.example.test"]), Code::TokenClaims),
        ("sub", json!(12), Code::TokenClaims),
        ("sub", json!(""), Code::TokenClaims),
        ("sub", json!(null), Code::TokenClaims),
        ("client_id", json!(7), Code::TokenClaims),
        ("scope", json!(7), Code::TokenClaims),
        ("scope", json!(["read", 7]), Code::TokenClaims),
        ("typ", json!(7), Code::TokenType),
    ] {
        let claims = with(claims(), name, value.clone());
        assert_eq!(code_of(&bench, &claims).await, Some(code), "{name}: {value}");
    }
    let float = with(claims(), "exp", json!(START_F + 300.7));
    assert_eq!(code_of(&bench, &float).await, None);
}

#[tokio::test]
async fn t02_what_is_required_is_required() {
    let bench = Bench::rsa();
    for name in ["aud", "iss", "exp", "sub"] {
        let code = code_of(&bench, &without(claims(), name)).await;
        assert_eq!(code, Some(Code::TokenClaims), "{name}");
    }
    let mut config = config(&[RSA.jwk("k1")]);
    config["required_claims"] = json!(["jti"]);
    let bench = Bench::new(&[config]);
    assert_eq!(code_of(&bench, &claims()).await, Some(Code::TokenClaims));
    let null = with(claims(), "jti", Value::Null);
    assert_eq!(code_of(&bench, &null).await, Some(Code::TokenClaims));
    assert_eq!(code_of(&bench, &with(claims(), "jti", json!("1"))).await, None);
}

#[tokio::test]
async fn t02_leeway_is_exact_on_both_sides() {
    let bench = Bench::rsa();
    let at = |name: &str, offset: i64| with(claims(), name, json!(START + offset));
    for (claims, code) in [
        (at("exp", -30), None),
        (at("exp", -59), None),
        (at("exp", -60), Some(Code::TokenExpired)),
        (at("exp", -90), Some(Code::TokenExpired)),
        (at("nbf", 60), None),
        (at("nbf", 61), Some(Code::TokenNotYetValid)),
        (at("nbf", 3600), Some(Code::TokenNotYetValid)),
        (at("iat", 60), None),
        (at("iat", 61), Some(Code::TokenNotYetValid)),
        (at("iat", 3600), Some(Code::TokenNotYetValid)),
    ] {
        assert_eq!(code_of(&bench, &claims).await, code, "{claims}");
    }
    let half = with(claims(), "exp", json!(START_F - 59.5));
    let token = RSA.token("k1", &half);
    assert_eq!(bench.code(&token).await, None);
    bench.clock.advance(Duration::from_millis(499));
    assert_eq!(bench.code(&token).await, None);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.code(&token).await, Some(Code::TokenExpired));
}

#[tokio::test]
async fn t10_a_huge_expiry_neither_overflows_nor_prolongs_the_cache() {
    let bench = Bench::with_tokens(&[config(&[RSA.jwk("k1")])], &json!({"cache_ttl": "10s"}));
    for exp in [
        json!(u64::MAX),
        json!(i64::MAX),
        json!(253_402_300_800_u64),
        json!(1e18),
        json!(1e300),
        json!(START),
        json!(START - 1),
    ] {
        let token = RSA.token("k1", &with(claims(), "exp", exp.clone()));
        assert_eq!(bench.code(&token).await, None, "{exp}");
        assert!(bench.peek(&token).is_some(), "{exp}");
    }
    let token = RSA.token("k1", &with(claims(), "exp", json!(u64::MAX)));
    bench.advance(10);
    assert!(bench.peek(&token).is_none(), "the configured maximum ends it");
    let text = format!(r#"{{"iss":"{ISSUER}","sub":"a","aud":"orders-api","exp":1e999}}"#);
    let infinite = RSA.sign_text(r#"{"alg":"RS256","kid":"k1"}"#, &text);
    assert!(bench.code(&infinite).await.is_some());
    for name in ["nbf", "iat"] {
        for huge in [json!(i64::MIN), json!(-1e300)] {
            let claims = with(claims(), name, huge);
            assert_eq!(code_of(&bench, &claims).await, None, "{claims}");
        }
        let claims = with(claims(), name, json!(u64::MAX));
        assert_eq!(code_of(&bench, &claims).await, Some(Code::TokenNotYetValid));
    }
}

#[tokio::test]
async fn s4_1_id_and_refresh_tokens_and_bound_ones_are_refused() {
    let bench = Bench::rsa();
    for kind in ["ID", "Refresh", "id"] {
        let claims = with(claims(), "typ", json!(kind));
        assert_eq!(code_of(&bench, &claims).await, Some(Code::TokenType), "{kind}");
    }
    assert_eq!(code_of(&bench, &with(claims(), "typ", json!("Bearer"))).await, None);
    let for_client = with(claims(), "aud", json!("web"));
    assert_eq!(code_of(&bench, &for_client).await, Some(Code::TokenAudience));
    for cnf in [json!({"jkt": "x"}), json!(null)] {
        let claims = with(claims(), "cnf", cnf);
        assert_eq!(code_of(&bench, &claims).await, Some(Code::TokenBound));
    }
}

#[tokio::test]
async fn s4_1_the_client_is_client_id_else_azp_else_appid() {
    let mut config = config(&[RSA.jwk("k1")]);
    config["clients"] = json!(["web"]);
    let bench = Bench::new(&[config]);
    for (names, code) in [
        (json!({"client_id": "web", "azp": "other"}), None),
        (json!({"client_id": "other", "azp": "web"}), Some(Code::TokenClient)),
        (json!({"azp": "web", "appid": "other"}), None),
        (json!({"appid": "web"}), None),
        (json!({}), Some(Code::TokenClient)),
    ] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
        assert_eq!(code_of(&bench, &claims).await, code, "{names}");
    }
}

#[tokio::test]
async fn s4_1_scopes_are_scope_or_scp_string_or_list() {
    let bench = Bench::rsa();
    let demand = Demand { scopes: vec!["read".into(), "write".into()], ..Demand::default() };
    for (name, value, passes) in [
        ("scope", json!("write read"), true),
        ("scp", json!("read write more"), true),
        ("scp", json!(["read", "write"]), true),
        ("scope", json!(["read write"]), false),
        ("scope", json!("read"), false),
        ("scope", json!("readwrite"), false),
        ("other", json!("read write"), false),
    ] {
        let token = RSA.token("k1", &with(claims(), name, value.clone()));
        let code = bench.ask(&token, &demand).await.err().map(|refusal| refusal.code);
        assert_eq!(code, (!passes).then_some(Code::InsufficientScope), "{name}: {value}");
    }
}

#[tokio::test]
async fn s4_1_any_audience_takes_tokens_without_one_but_none_mistyped() {
    let mut config = config(&[RSA.jwk("k1")]);
    config["audiences"] = json!("any");
    config["audiences_any_reason"] = json!("the issuer sets none");
    let bench = Bench::new(&[config]);
    assert_eq!(code_of(&bench, &without(claims(), "aud")).await, None);
    assert_eq!(code_of(&bench, &with(claims(), "aud", json!("other"))).await, None);
    assert_eq!(code_of(&bench, &with(claims(), "aud", json!(7))).await, Some(Code::TokenClaims));
}

#[tokio::test]
async fn o04_subjects_and_kids_of_any_text_are_taken_whole() {
    let bench = Bench::rsa();
    for length in [63, 127, 199, 255] {
        let text = "a".repeat(length) + "€";
        let claims = with(claims(), "sub", json!(text));
        let (verified, _) = bench.ask(&RSA.token("k1", &claims), &Demand::default()).await.unwrap();
        assert_eq!(&*verified.subject, text.as_str());
        let unknown = bench.code(&RSA.token(&text, &claims)).await;
        assert_eq!(unknown, Some(Code::TokenKeyUnknown));
    }
    let emoji = with(claims(), "sub", json!("🦀"));
    assert_eq!(code_of(&bench, &emoji).await, None);
}
