//! Key sets (RFC 7517), parsed key by key: a key that cannot be used is left out alone.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::algorithm;
use super::json;
use crate::model::{Digest, Hasher};

/// More keys than this of one issuer are not looked at, so that a token without `kid` cannot
/// make us try more.
const MAX_KEYS: usize = 32;

/// One public key that may verify signatures.
pub(super) struct Key {
    /// `kid`, where it has one.
    pub kid: Option<Box<str>>,
    /// Algorithms that it may verify.
    pub algorithms: Vec<Algorithm>,
    /// For `jsonwebtoken`.
    pub decoding: DecodingKey,
    /// Hash of `kid`, material and algorithms: equal keys of two fetches are one key.
    pub id: Digest,
    /// Names it in this process; no other key ever has it.
    pub serial: Serial,
}

/// Names one key of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial(u64);

impl Serial {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("kid", &self.kid).field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key set as it came.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The keys that can be used, in order, equal ones once.
    pub keys: Vec<Key>,
    /// For each that cannot: its place and why.
    pub skipped: Vec<(usize, &'static str)>,
}

#[derive(Deserialize)]
struct Set<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

/// Parses a key set. Several keys may share a `kid`: all that fit a token's algorithm are tried.
pub(super) fn parse(body: &[u8]) -> Result<Parsed, &'static str> {
    let set: Set<'_> =
        serde_json::from_slice(body).map_err(|_| "the key set is not JSON with a list `keys`")?;
    let mut parsed = Parsed { keys: Vec::new(), skipped: Vec::new() };
    for (index, raw) in set.keys.iter().enumerate() {
        match key(raw.get()) {
            Ok(key) if parsed.keys.iter().any(|known| known.id == key.id) => {}
            Ok(_) if parsed.keys.len() >= MAX_KEYS => {
                parsed.skipped.push((index, "too many keys"));
            }
            Ok(key) => parsed.keys.push(key),
            Err(why) => parsed.skipped.push((index, why)),
        }
    }
    Ok(parsed)
}

fn text<'a>(jwk: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    jwk.get(name).and_then(Value::as_str)
}

fn key(raw: &str) -> Result<Key, &'static str> {
    let jwk = json::object(raw.as_bytes()).ok_or("not a strict JSON object")?;
    let kid = match jwk.get("kid") {
        None => None,
        Some(Value::String(kid)) => Some(kid.as_str()),
        Some(_) => return Err("kid is not a string"),
    };
    check_use(&jwk)?;
    let (fitting, decoding, material) = match text(&jwk, "kty") {
        Some("RSA") => rsa(&jwk)?,
        Some("EC") => ec(&jwk)?,
        Some("OKP") => okp(&jwk)?,
        Some(_) => return Err("the key type is not supported"),
        None => return Err("no kty"),
    };
    let algorithms = match jwk.get("alg") {
        None => fitting.to_vec(),
        Some(alg) => {
            // RFC 9864 names the curve instead.
            let name = alg.as_str().map(|name| if name == "Ed25519" { "EdDSA" } else { name });
            let known = name.and_then(algorithm::by_name).filter(|alg| fitting.contains(alg));
            vec![known.ok_or("alg is unknown or not one of the key's type")?]
        }
    };
    let names = format!("{algorithms:?}");
    let id = Hasher::new("key")
        .optional(kid.map(str::as_bytes))
        .part(names.as_bytes())
        .part(material.as_bytes())
        .finish();
    Ok(Key { kid: kid.map(Box::from), algorithms, decoding, id, serial: Serial::next() })
}

/// The key is for signatures, as far as it says (RFC 7517, sections 4.2 and 4.3).
fn check_use(jwk: &Map<String, Value>) -> Result<(), &'static str> {
    if jwk.get("use").is_some_and(|usage| usage != "sig") {
        return Err("use is not sig");
    }
    match jwk.get("key_ops") {
        None => Ok(()),
        Some(Value::Array(ops)) if ops.iter().any(|op| op == "verify") => Ok(()),
        Some(_) => Err("key_ops has no verify"),
    }
}

type Material = (&'static [Algorithm], DecodingKey, Digest);

fn bytes(jwk: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text(jwk, name)?).ok()
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn rsa(jwk: &Map<String, Value>) -> Result<Material, &'static str> {
    let modulus = bytes(jwk, "n").ok_or("n is missing or not base64url")?;
    let exponent = bytes(jwk, "e").ok_or("e is missing or not base64url")?;
    let (modulus, exponent) = (without_leading_zeros(&modulus), without_leading_zeros(&exponent));
    let unused = modulus.first().map_or(0, |first| first.leading_zeros() as usize);
    let bits = (modulus.len() * 8).saturating_sub(unused);
    if !(2048..=8192).contains(&bits) {
        return Err("the RSA key has less than 2048 or more than 8192 bits");
    }
    let odd = exponent.last().is_some_and(|last| last % 2 == 1);
    if !odd || exponent == [1] || exponent.len() > 4 {
        return Err("the RSA exponent is even, 1 or too large");
    }
    let decoding = DecodingKey::from_rsa_raw_components(modulus, exponent);
    let material = Hasher::new("rsa").part(modulus).part(exponent).finish();
    Ok((algorithm::RSA, decoding, material))
}

fn ec(jwk: &Map<String, Value>) -> Result<Material, &'static str> {
    let (algorithms, size): (&'static [Algorithm], usize) = match text(jwk, "crv") {
        Some("P-256") => (&[Algorithm::ES256], 32),
        Some("P-384") => (&[Algorithm::ES384], 48),
        _ => return Err("the curve is not supported"),
    };
    let coordinate = |name| bytes(jwk, name).filter(|bytes| bytes.len() == size);
    let x = coordinate("x").ok_or("x is missing or not of the curve's size")?;
    let y = coordinate("y").ok_or("y is missing or not of the curve's size")?;
    let point = [&[4], x.as_slice(), y.as_slice()].concat();
    Ok((algorithms, DecodingKey::from_ec_der(&point), Digest::of("ec", &point)))
}

fn okp(jwk: &Map<String, Value>) -> Result<Material, &'static str> {
    if text(jwk, "crv") != Some("Ed25519") {
        return Err("the curve is not supported");
    }
    let x = bytes(jwk, "x").filter(|bytes| bytes.len() == 32);
    let x = x.ok_or("x is missing or not of the curve's size")?;
    Ok((&[Algorithm::EdDSA], DecodingKey::from_ed_der(&x), Digest::of("okp", &x)))
}
