//! The outer form of a token (RFC 7519, RFC 7515 compact serialisation).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::json;
use crate::model::{Code, Refusal};

/// A token taken apart. Nothing in it is verified; what may be used before the signature is
/// verified is the header and `iss`, to find the key.
pub(super) struct Unverified<'a> {
    /// What is signed: header and payload as they came.
    pub message: &'a [u8],
    /// The signature, still base64url, known to decode.
    pub signature: &'a str,
    /// The header.
    pub header: Map<String, Value>,
    /// The claims.
    pub claims: Map<String, Value>,
}

const fn malformed(detail: &'static str) -> Refusal {
    Refusal::new(Code::TokenMalformed, detail)
}

impl<'a> Unverified<'a> {
    /// Takes `token` apart. Base64url is strict: no padding, no white space, no stray bits, so
    /// that a token has one spelling.
    pub(super) fn parse(token: &'a str) -> Result<Self, Refusal> {
        const NOT_THREE: Refusal = malformed("not three parts");
        let (message, signature) = token.rsplit_once('.').ok_or(NOT_THREE)?;
        let (header, payload) = message.split_once('.').ok_or(NOT_THREE)?;
        if payload.contains('.') {
            return Err(NOT_THREE);
        }
        if signature.is_empty() {
            return Err(malformed("no signature"));
        }
        let decode = |part: &str, error| URL_SAFE_NO_PAD.decode(part).map_err(|_| error);
        decode(signature, malformed("the signature is not base64url"))?;
        let header = decode(header, malformed("the header is not base64url"))?;
        let payload = decode(payload, malformed("the payload is not base64url"))?;
        Ok(Self {
            message: message.as_bytes(),
            signature,
            header: json::object(&header)
                .ok_or(malformed("the header is not a strict JSON object"))?,
            claims: json::object(&payload)
                .ok_or(malformed("the payload is not a strict JSON object"))?,
        })
    }

    /// The unverified `iss`.
    pub(super) fn issuer(&self) -> Result<&str, Refusal> {
        match self.claims.get("iss") {
            Some(Value::String(issuer)) => Ok(issuer),
            Some(_) => Err(Refusal::new(Code::TokenClaims, "iss is not a string")),
            None => Err(Refusal::new(Code::TokenClaims, "no iss")),
        }
    }
}
