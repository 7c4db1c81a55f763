//! Throw-away keys. They are made anew for every playground and protect nothing.

use std::path::Path;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::Error;

/// Key id of the RSA key in the key set.
pub(crate) const RSA_KID: &str = "playground-rsa";
/// Key id of the P-256 key in the key set.
pub(crate) const EC_KID: &str = "playground-ec";

/// The keys of one playground.
pub(crate) struct Keys {
    /// Signs RS256 tokens; its public half is in the key set.
    pub(crate) rsa: RsaKeyPair,
    /// Signs ES256 tokens; its public half is in the key set.
    pub(crate) ec: EcdsaKeyPair,
    /// Signs forged tokens; nobody knows its public half.
    pub(crate) forger: RsaKeyPair,
}

impl Keys {
    /// Makes new keys.
    pub(crate) fn make() -> Result<Self, Error> {
        Ok(Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048)?,
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?,
            forger: RsaKeyPair::generate(KeySize::Rsa2048)?,
        })
    }

    /// Writes the private keys as PKCS#8 PEM and the public ones as `jwks.json`.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), Error> {
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join("rsa.pem"), pem(self.rsa.as_der()?.as_ref()))?;
        std::fs::write(dir.join("ec.pem"), pem(self.ec.to_pkcs8v1()?.as_ref()))?;
        std::fs::write(dir.join("forger.pem"), pem(self.forger.as_der()?.as_ref()))?;
        std::fs::write(dir.join("jwks.json"), format!("{:#}\n", self.jwks()?))?;
        Ok(())
    }

    /// The public keys as a JSON Web Key Set (RFC 7517).
    pub(crate) fn jwks(&self) -> Result<Value, Error> {
        // PKCS#1 of a 2048-bit key: nine bytes of framing and sign, the modulus, the exponent 65537.
        let modulus = self.rsa.public_key().as_ref().get(9..265).ok_or("no modulus")?;
        // An uncompressed point: 0x04, x, y.
        let point = self.ec.public_key().as_ref();
        let (x, y) = (point.get(1..33).ok_or("no x")?, point.get(33..65).ok_or("no y")?);
        let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        Ok(json!({ "keys": [
            { "kty": "RSA", "use": "sig", "alg": "RS256", "kid": RSA_KID, "n": b64(modulus), "e": "AQAB" },
            { "kty": "EC", "use": "sig", "alg": "ES256", "kid": EC_KID, "crv": "P-256", "x": b64(x), "y": b64(y) },
        ]}))
    }
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
}
