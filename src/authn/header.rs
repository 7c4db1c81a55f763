//! The header of a token (RFC 7515, section 4).

use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use super::algorithm;
use super::rules::Rules;
use crate::model::{Code, Refusal};

/// What a header says of the key.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub algorithm: Algorithm,
    pub kid: Option<&'a str>,
}

impl<'a> Header<'a> {
    /// Checks `header` against its issuer's rules.
    pub(super) fn check(header: &'a Map<String, Value>, rules: &Rules) -> Result<Self, Refusal> {
        // An extension that we do not know may change what the token means (RFC 7515, section
        // 4.1.11); `b64` (RFC 7797) changes what is signed, whether `crit` names it or not.
        if header.contains_key("crit") {
            return Err(Refusal::new(Code::TokenCritical, "the header has crit"));
        }
        if header.contains_key("b64") {
            return Err(Refusal::new(Code::TokenCritical, "the header has b64"));
        }
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => algorithm::by_name(name),
            _ => None,
        };
        let algorithm = algorithm
            .filter(|algorithm| rules.algorithms.contains(algorithm))
            .ok_or(Refusal::new(Code::TokenAlgorithm, "alg is not one of the issuer's"))?;
        check_type(header.get("typ"))?;
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.as_str()),
            Some(_) => return Err(Refusal::new(Code::TokenMalformed, "kid is not a string")),
        };
        Ok(Self { algorithm, kid })
    }
}

/// Absent, `JWT` or an access token's (RFC 9068, section 2.1); media types ignore case.
fn check_type(kind: Option<&Value>) -> Result<(), Refusal> {
    const ACCESS: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];
    let accepted = match kind {
        None => true,
        Some(Value::String(kind)) => ACCESS.iter().any(|known| kind.eq_ignore_ascii_case(known)),
        Some(_) => false,
    };
    if accepted {
        Ok(())
    } else {
        Err(Refusal::new(Code::TokenType, "typ of the header is not an access token's"))
    }
}
