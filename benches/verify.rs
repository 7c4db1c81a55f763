//! What a token costs: found in memory (the warm path of every Check), and verified whole.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::similar_names,
    reason = "a bench that cannot be set up ends with a message"
)]

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use divan::{Bencher, black_box};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use portcullis::authn::{Authenticator as _, Verifier};
use portcullis::clock::Clock;
use portcullis::model::{Demand, Secret};
use portcullis::telemetry::Metrics;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://idp.example.test/a";

fn main() {
    divan::main();
}

/// A private key and its public half.
fn key(algorithm: Algorithm) -> (EncodingKey, Value) {
    let generate = |kind| rcgen::KeyPair::generate_for(kind).expect("a key");
    match algorithm {
        Algorithm::ES256 => {
            let pair = generate(&rcgen::PKCS_ECDSA_P256_SHA256);
            let (x, y) = (b64(&pair.public_key_raw()[1..33]), b64(&pair.public_key_raw()[33..]));
            let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "k1", "x": x, "y": y });
            (EncodingKey::from_ec_der(pair.serialized_der()), jwk)
        }
        Algorithm::EdDSA => {
            let pair = generate(&rcgen::PKCS_ED25519);
            let x = b64(pair.public_key_raw());
            let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x });
            (EncodingKey::from_ed_der(pair.serialized_der()), jwk)
        }
        _ => {
            let size = rcgen::RsaKeySize::_2048;
            let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size);
            let pair = pair.expect("a key");
            // The PKCS#8 envelope around a 2048 bit RSA key is 26 bytes long.
            let key = EncodingKey::from_rsa_der(&pair.serialized_der()[26..]);
            let jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).expect("a JWK");
            let mut jwk = serde_json::to_value(jwk).expect("JSON");
            jwk["kid"] = json!("k1");
            (key, jwk)
        }
    }
}

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token as identity providers write them, about 1 KiB.
fn token(key: &EncodingKey, algorithm: Algorithm) -> String {
    let header = json!({ "alg": format!("{algorithm:?}"), "typ": "JWT", "kid": "k1" });
    let claims = json!({
        "iss": ISSUER, "sub": "6f1c2a54-0f6a-4b52-9d0c-2b8f7a3f0a11", "aud": ["orders-api"],
        "exp": NOW + 300, "iat": NOW, "jti": "b6a1b1f2-7f0e-4a55-a4bb-6e2c7c0f5f11",
        "azp": "web", "scope": "openid profile email", "preferred_username": "alice",
        "email": "alice@example.test", "name": "Alice Example", "email_verified": true,
        "realm_access": { "roles": ["offline_access", "uma_authorization", "default-roles-a"] },
        "resource_access": { "account": { "roles": ["manage-account", "view-profile"] } },
    });
    let message =
        format!("{}.{}", b64(header.to_string().as_bytes()), b64(claims.to_string().as_bytes()));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm);
    format!("{message}.{}", signature.expect("a signature"))
}

/// A verifier and a token that it accepts.
fn set_up(algorithm: Algorithm, cache: &str) -> (Verifier, Clock, String) {
    let (key, jwk) = key(algorithm);
    let path = file(&json!({ "keys": [jwk] }));
    let config = json!({
        "name": "main", "issuer": ISSUER, "audiences": ["orders-api"], "keys": { "file": path },
        "algorithms": [format!("{algorithm:?}")], "claims": ["preferred_username", "email"],
    });
    let issuer = serde_json::from_value(config).expect("configuration");
    let tokens = json!({ "cache": cache });
    let tokens = serde_json::from_value(tokens).expect("configuration");
    let (clock, metrics) = (Clock::manual(NOW), Arc::new(Metrics::new()));
    let base = std::env::temp_dir();
    let verifier = Verifier::new(&[issuer], &tokens, &base, &clock, &metrics).expect("a verifier");
    (verifier, clock, token(&key, algorithm))
}

fn file(keys: &Value) -> PathBuf {
    let name = format!("portcullis-bench-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, keys.to_string()).expect("a file");
    path
}

/// A token that was verified before: a hash, a look-up and a few comparisons.
#[divan::bench]
fn peek(bencher: Bencher<'_, '_>) {
    let (verifier, clock, token) = set_up(Algorithm::RS256, "32MiB");
    let demand = Demand { scopes: vec!["profile".into()], ..Demand::default() };
    let secret = Secret::new(token.clone());
    let verified = futures_util::future::FutureExt::now_or_never(verifier.resolve(
        &secret,
        &demand,
        clock.now(),
    ));
    assert!(verified.expect("ready").is_ok());
    let now = clock.now();
    bencher.bench_local(|| {
        let found = verifier.peek(black_box(&token), &demand, &now);
        assert!(found.is_some_and(|found| found.is_ok()));
    });
}

/// A token that nothing remembers: taken apart, verified and checked.
#[divan::bench(args = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA])]
fn verify(bencher: Bencher<'_, '_>, algorithm: Algorithm) {
    let (verifier, clock, token) = set_up(algorithm, "0B");
    let (demand, secret, now) = (Demand::default(), Secret::new(token), clock.now());
    bencher.bench_local(|| {
        let resolved = verifier.resolve(black_box(&secret), &demand, now);
        let verified = futures_util::future::FutureExt::now_or_never(resolved);
        assert!(verified.expect("ready").is_ok());
    });
}
