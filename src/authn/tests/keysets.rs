use serde_json::{Value, json};

use super::support::*;
use crate::model::Code;

fn shown(bench: &Bench, line: &str) -> bool {
    bench.metrics.render().unwrap().contains(line)
}

#[tokio::test]
async fn t03_a_key_that_cannot_be_used_is_skipped_alone() {
    let padded = format!("{}==", RSA_2.bare()["n"].as_str().unwrap());
    let short = b64(&[0xff; 128]);
    for odd in [
        json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "pq"}),
        with(with(RSA_2.jwk("enc"), "alg", json!("RSA-OAEP")), "use", json!("enc")),
        json!({"kty": "EC", "crv": "secp256k1", "kid": "s", "x": "AA", "y": "AA"}),
        json!({"kty": "RSA", "kid": "broken"}),
        json!({}),
        json!(null),
        json!("text"),
        with(RSA_2.jwk("padded"), "n", json!(padded)),
        with(RSA_2.jwk("short"), "n", json!(short)),
        with(RSA_2.jwk("even"), "e", json!("Ag")),
        with(RSA_2.jwk("one"), "e", json!("AQ")),
        with(RSA_2.jwk("x"), "kid", json!(7)),
        with(RSA_2.jwk("ops"), "key_ops", json!(["encrypt"])),
        with(RSA_2.jwk("alg"), "alg", json!("ES256")),
        with(EC.jwk("ec"), "x", json!("AA")),
        with(ED.jwk("ed"), "crv", json!("X25519")),
        json!({"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}),
    ] {
        let bench = Bench::new(&[config(&[odd.clone(), RSA.jwk("k1")])]);
        assert_eq!(bench.code(&RSA.token("k1", &claims())).await, None, "{odd}");
        assert!(shown(&bench, "portcullis_issuer_keys{issuer=\"main\"} 1"), "{odd}");
        assert!(shown(&bench, "portcullis_issuer_keys_skipped_total{issuer=\"main\"} 1"), "{odd}");
        if let Some(kid) = odd.get("kid").and_then(Value::as_str) {
            let code = bench.code(&RSA_2.token(kid, &claims())).await;
            assert_eq!(code, Some(Code::TokenKeyUnknown), "{odd}");
        }
    }
}

#[tokio::test]
async fn t03_members_that_nobody_knows_do_no_harm() {
    let path = file(&json!({"keys": [RSA.jwk("k1")], "more": {"a": 1}}).to_string());
    let mut config = config(&[]);
    config["keys"] = json!({ "file": path });
    let bench = Bench::new(&[config]);
    assert_eq!(bench.code(&RSA.token("k1", &claims())).await, None);
    assert!(bench.verifier.ready());
}

#[tokio::test]
async fn keys_say_what_they_are_for() {
    let encryption = with(RSA.jwk("k1"), "use", json!("enc"));
    let problems = Bench::try_new(&[config(&[encryption])], &json!({})).err().unwrap();
    assert_eq!(problems[0].pointer, "/0/keys/file");
    let mut signing = with(RSA.jwk("k1"), "use", json!("sig"));
    signing["key_ops"] = json!(["verify"]);
    let mut config = config(&[with(signing, "alg", json!("RS256"))]);
    config["algorithms"] = json!(["RS256", "RS512"]);
    let bench = Bench::new(&[config]);
    assert_eq!(bench.code(&RSA.token("k1", &claims())).await, None);
    let header = r#"{"alg":"RS512","kid":"k1"}"#;
    let token = RSA.sign_as(jsonwebtoken::Algorithm::RS512, header, &claims().to_string());
    assert_eq!(bench.code(&token).await, Some(Code::TokenAlgorithm));
}

#[tokio::test]
async fn keys_that_share_a_kid_are_all_tried_and_equal_ones_are_one() {
    let keys = [RSA_2.jwk("k1"), RSA.jwk("k1"), RSA.jwk("k1"), EC.jwk("k1")];
    let mut config = config(&keys);
    config["algorithms"] = json!(["RS256", "ES256"]);
    let bench = Bench::new(&[config]);
    for signer in [&*RSA, &*RSA_2, &*EC] {
        assert_eq!(bench.code(&signer.token("k1", &claims())).await, None);
    }
    assert!(shown(&bench, "portcullis_issuer_keys{issuer=\"main\"} 3"));
}

#[tokio::test]
async fn s4_1_a_token_without_kid_is_tried_on_the_keys_of_its_algorithm() {
    let bench = Bench::new(&[config(&[EC.jwk("e"), RSA_2.jwk("k2"), RSA.jwk("k1")])]);
    let header = json!({"alg": "RS256"});
    assert_eq!(bench.code(&RSA.sign(&header, &claims())).await, None);
    let other = Bench::new(&[config(&[EC.jwk("e"), RSA_2.jwk("k2")])]);
    let code = other.code(&RSA.sign(&header, &claims())).await;
    assert_eq!(code, Some(Code::TokenSignature));
    let none = Bench::new(&[config(&[EC.jwk("e")])]);
    let code = none.code(&RSA.sign(&header, &claims())).await;
    assert_eq!(code, Some(Code::TokenKeyUnknown));
}

#[tokio::test]
async fn s4_3_a_kid_that_a_file_does_not_have_is_401() {
    let bench = Bench::rsa();
    let code = bench.code(&RSA.token("k2", &claims())).await;
    assert_eq!(code, Some(Code::TokenKeyUnknown));
}

#[test]
fn files_that_cannot_be_used_are_named_all_at_once() {
    let mut missing = config(&[]);
    missing["keys"] = json!({"file": "no-such-file.json"});
    let mut html = config(&[]);
    html["keys"] = json!({"file": file("<html>")});
    let empty = config(&[]);
    let problems = Bench::try_new(&[missing, html, empty], &json!({})).err().unwrap();
    let pointers: Vec<_> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(pointers, ["/0/keys/file", "/1/keys/file", "/2/keys/file"]);
    assert!(problems[0].message.contains("no-such-file.json"));
    assert!(problems[2].message.contains("no usable key"));
}
