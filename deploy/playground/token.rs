//! Signed tokens for the playground.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::Error;
use super::keys::{EC_KID, Keys, RSA_KID};

/// Who signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signer {
    /// RS256 with the key of the key set.
    Rsa,
    /// ES256 with the key of the key set.
    Ec,
    /// RS256 under the honest key's id, but with a key that nobody trusts.
    Forger,
}

/// Seconds since the Unix epoch.
pub(crate) fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)
}

/// The claims every token needs, ending `expires` seconds from now (negative: already over).
pub(crate) fn claims(issuer: &str, audience: &str, user: &str, expires: i64) -> Map<String, Value> {
    let now = now();
    let claims = json!({
        "iss": issuer, "aud": audience, "sub": format!("sub-{user}"), "preferred_username": user,
        "iat": now.min(now + expires) - 1, "exp": now + expires,
    });
    claims.as_object().cloned().unwrap_or_default()
}

/// Signs `claims` as a compact JWS (RFC 7515).
pub(crate) fn sign(
    keys: &Keys,
    signer: Signer,
    claims: &Map<String, Value>,
) -> Result<String, Error> {
    let header = match signer {
        Signer::Rsa | Signer::Forger => json!({ "alg": "RS256", "typ": "JWT", "kid": RSA_KID }),
        Signer::Ec => json!({ "alg": "ES256", "typ": "JWT", "kid": EC_KID }),
    };
    let part = |value: &[u8]| URL_SAFE_NO_PAD.encode(value);
    let message =
        format!("{}.{}", part(header.to_string().as_bytes()), part(&serde_json::to_vec(claims)?));
    let signature = match signer {
        Signer::Rsa => rsa(&keys.rsa, &message)?,
        Signer::Forger => rsa(&keys.forger, &message)?,
        Signer::Ec => keys.ec.sign(&SystemRandom::new(), message.as_bytes())?.as_ref().to_vec(),
    };
    Ok(format!("{message}.{}", part(&signature)))
}

fn rsa(key: &RsaKeyPair, message: &str) -> Result<Vec<u8>, Error> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)?;
    Ok(signature)
}
