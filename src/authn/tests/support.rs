//! Keys that sign, tokens made by hand, and verifiers of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, jwk::Jwk};
use serde_json::{Value, json};

use super::super::*;
use crate::clock::Clock;
use crate::model::{Code, Problem};
use crate::store::Generations;
use crate::telemetry::Metrics;

/// When every test begins, in seconds since the epoch.
pub(super) const START: i64 = 1_800_000_000;
/// The same, for claims with a fraction.
pub(super) const START_F: f64 = 1_800_000_000.0;
pub(super) const ISSUER: &str = "https://idp.example.test/a";

/// A private key with its public half as a JWK.
pub(super) struct Signer {
    pub(super) algorithm: Algorithm,
    key: EncodingKey,
    jwk: Value,
}

impl Signer {
    /// The public key with `kid`.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        with(self.jwk.clone(), "kid", json!(kid))
    }

    /// The public key without `kid` and `alg`.
    pub(super) fn bare(&self) -> Value {
        self.jwk.clone()
    }

    /// Signs `header` and `claims` as they are.
    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(&header.to_string(), &claims.to_string())
    }

    pub(super) fn sign_text(&self, header: &str, claims: &str) -> String {
        self.sign_as(self.algorithm, header, claims)
    }

    pub(super) fn sign_as(&self, algorithm: Algorithm, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", b64(header.as_bytes()), b64(claims.as_bytes()));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, algorithm);
        format!("{message}.{}", signature.unwrap())
    }

    /// A token with `kid` and these claims.
    pub(super) fn token(&self, kid: &str, claims: &Value) -> String {
        self.sign(&json!({ "alg": format!("{:?}", self.algorithm), "kid": kid }), claims)
    }
}

pub(super) fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// RSA keys are slow to make: two for all tests.
pub(super) static RSA: LazyLock<Signer> = LazyLock::new(rsa);
pub(super) static RSA_2: LazyLock<Signer> = LazyLock::new(rsa);
pub(super) static EC: LazyLock<Signer> = LazyLock::new(ec);
pub(super) static EC_384: LazyLock<Signer> = LazyLock::new(ec_384);
pub(super) static ED: LazyLock<Signer> = LazyLock::new(ed);

fn rsa() -> Signer {
    let kind = &rcgen::PKCS_RSA_SHA256;
    let pair = rcgen::KeyPair::generate_rsa_for(kind, rcgen::RsaKeySize::_2048).unwrap();
    // The PKCS#8 envelope around a 2048 bit RSA key is 26 bytes long.
    let key = EncodingKey::from_rsa_der(&pair.serialized_der()[26..]);
    let jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    let mut jwk = serde_json::to_value(jwk).unwrap();
    jwk.as_object_mut().unwrap().remove("alg");
    Signer { algorithm: Algorithm::RS256, key, jwk }
}

fn ec() -> Signer {
    curve(&rcgen::PKCS_ECDSA_P256_SHA256, Algorithm::ES256, "P-256", 32)
}

fn ec_384() -> Signer {
    curve(&rcgen::PKCS_ECDSA_P384_SHA384, Algorithm::ES384, "P-384", 48)
}

fn curve(
    kind: &'static rcgen::SignatureAlgorithm,
    algorithm: Algorithm,
    name: &str,
    size: usize,
) -> Signer {
    let pair = rcgen::KeyPair::generate_for(kind).unwrap();
    let point = pair.public_key_raw();
    let (x, y) = (b64(&point[1..=size]), b64(&point[size + 1..]));
    let jwk = json!({ "kty": "EC", "crv": name, "x": x, "y": y });
    Signer { algorithm, key: EncodingKey::from_ec_der(pair.serialized_der()), jwk }
}

fn ed() -> Signer {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key_raw()) });
    let key = EncodingKey::from_ed_der(pair.serialized_der());
    Signer { algorithm: Algorithm::EdDSA, key, jwk }
}

/// `object` with one member set, or removed where `value` is null.
pub(super) fn with(mut object: Value, name: &str, value: Value) -> Value {
    object.as_object_mut().unwrap().insert(name.to_owned(), value);
    object
}

/// `object` without one member.
pub(super) fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().unwrap().remove(name);
    object
}

/// Claims that pass.
pub(super) fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "u-alice", "aud": "orders-api", "exp": START + 300 })
}

/// A file in a directory of its own.
pub(super) fn file(content: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("portcullis-authn-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(format!("keys-{next}.json"));
    std::fs::write(&path, content).unwrap();
    path
}

pub(super) fn issuer(config: Value) -> IssuerConfig {
    serde_json::from_value(config).unwrap()
}

/// Configuration of [`ISSUER`] whose keys are these, in a file.
pub(super) fn config(keys: &[Value]) -> Value {
    let path = file(&json!({ "keys": keys }).to_string());
    json!({
        "name": "main", "issuer": ISSUER, "audiences": ["orders-api"], "keys": { "file": path },
        "algorithms": ["RS256"],
    })
}

/// A verifier with what a test moves and reads.
pub(super) struct Bench {
    pub(super) verifier: Arc<Verifier>,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
    pub(super) generations: Arc<Generations>,
}

impl Bench {
    pub(super) fn new(configs: &[Value]) -> Self {
        Self::with_tokens(configs, &json!({}))
    }

    pub(super) fn with_tokens(configs: &[Value], tokens: &Value) -> Self {
        Self::try_new(configs, tokens).unwrap()
    }

    pub(super) fn try_new(configs: &[Value], tokens: &Value) -> Result<Self, Vec<Problem>> {
        let (clock, metrics) = (Clock::manual(START), Arc::new(Metrics::new()));
        let issuers: Vec<_> = configs.iter().cloned().map(issuer).collect();
        let tokens = serde_json::from_value(tokens.clone()).unwrap();
        let base = std::env::temp_dir();
        let generations = Arc::default();
        let shown = (&metrics, &generations);
        let verifier = Verifier::succeeding(None, &issuers, &tokens, &base, &clock, shown)?;
        Ok(Self { verifier: Arc::new(verifier), clock, metrics, generations })
    }

    /// One issuer whose keys are [`RSA`] as `k1`.
    pub(super) fn rsa() -> Self {
        Self::new(&[config(&[RSA.jwk("k1")])])
    }

    /// As a Check does it: from memory, else verified.
    pub(super) async fn ask(&self, token: &str, demand: &Demand) -> Result<Verified, Refusal> {
        let now = self.clock.now();
        if let Some(known) = self.verifier.peek(token, demand, &now) {
            return known;
        }
        self.verifier.resolve(&Secret::new(token.to_owned()), demand, now).await
    }

    /// The code that `token` is refused with; `None` if it passes.
    pub(super) async fn code(&self, token: &str) -> Option<Code> {
        self.ask(token, &Demand::default()).await.err().map(|refusal| refusal.code)
    }

    pub(super) fn peek(&self, token: &str) -> Option<Result<Verified, Refusal>> {
        self.verifier.peek(token, &Demand::default(), &self.clock.now())
    }

    pub(super) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

impl Bench {
    pub(super) fn verifier_peek(
        &self,
        token: &str,
        now: &crate::clock::Now,
    ) -> Option<Result<Verified, Refusal>> {
        self.verifier.peek(token, &Demand::default(), now)
    }
}
