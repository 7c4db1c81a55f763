//! Tokens of the playground's issuer.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::kit::keys::Keys;
use crate::kit::token::{self, Signer};

/// Made once: an RSA key takes a moment.
static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys::make().unwrap());

/// Writes the key set of these tests to `dir/jwks.json`.
pub(crate) fn write_keys(dir: &Path) {
    KEYS.write(dir).unwrap();
}

/// The key set without the EC key, whose tokens have a key that nobody publishes.
pub(crate) fn rsa_alone() -> String {
    let mut jwks = KEYS.jwks().unwrap();
    jwks["keys"].as_array_mut().unwrap().retain(|key| key["kty"] == "RSA");
    jwks.to_string()
}

/// A token in the making: valid for an hour unless told otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    claims: Map<String, Value>,
    signer: Signer,
}

impl Token {
    /// For that user of the user API.
    pub(crate) fn of(user: &str) -> Self {
        let claims = token::claims("https://idp.playground.test", "water-data", user, 3600);
        Self { claims, signer: Signer::Rsa }
    }

    /// With another value of a claim.
    pub(crate) fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.claims.insert(name.to_owned(), value.into());
        self
    }

    /// Signed by someone else.
    pub(crate) fn signer(self, signer: Signer) -> Self {
        Self { signer, ..self }
    }

    /// Over since ten minutes.
    pub(crate) fn expired(self) -> Self {
        let then = token::now() - 600;
        self.claim("exp", then).claim("iat", then - 60)
    }

    /// The compact form.
    pub(crate) fn sign(&self) -> String {
        token::sign(&KEYS, self.signer, &self.claims).unwrap()
    }
}
