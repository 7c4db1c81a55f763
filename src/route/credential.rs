//! The credential: the bearer token of the `authorization` header (RFC 6750, section 2.1).

use super::config::Access;
use super::table::Matched;
use crate::model::{Code, Refusal, Request, Secret};

const BEARER: &[u8] = b"bearer";

/// What the `authorization` header holds.
#[derive(Debug)]
pub enum Authorization<'r> {
    /// There is none.
    Absent,
    /// One bearer token.
    Bearer(Secret<&'r str>),
    /// One credential of another scheme, which no route verifies.
    Other,
    /// More than one credential.
    Several,
    /// A bearer token that is none.
    Malformed,
}

/// Reads the `authorization` header of a request, wherever Envoy put its values.
///
/// Values that Envoy joined by commas count as several credentials: taking one of them would let
/// the backend take another. A comma inside another scheme's parameters is no second credential.
#[must_use]
pub fn authorization(request: &Request) -> Authorization<'_> {
    let mut values = request.headers.all("authorization");
    let Some(value) = values.next() else { return Authorization::Absent };
    if values.next().is_some() {
        return Authorization::Several;
    }
    if let Some(token) = lone_bearer(value) {
        return Authorization::Bearer(Secret::new(token));
    }
    let mut parts = value.split(|b| *b == b',');
    let first = parts.next().unwrap_or_default().trim_ascii();
    let (is_bearer, rest) = (starts_scheme(first, BEARER), parts.clone().next().is_some());
    if parts.any(|part| starts_credential(part.trim_ascii())) || (is_bearer && rest) {
        return Authorization::Several;
    }
    if is_bearer { Authorization::Malformed } else { Authorization::Other }
}

/// Whether the header holds a bearer credential; cheap, because [`authorization`] has looked at
/// all of it by then.
pub(super) fn is_bearer(request: &Request) -> bool {
    let first = request.headers.first("authorization");
    first.is_some_and(|value| starts_scheme(value.trim_ascii(), BEARER))
}

/// The token of a value that is one well-formed bearer credential, as almost every value is.
fn lone_bearer(value: &[u8]) -> Option<&str> {
    let value = value.trim_ascii();
    let token = value.get(BEARER.len()..).filter(|_| starts_scheme(value, BEARER))?.trim_ascii();
    is_b64token(token).then(|| std::str::from_utf8(token).ok())?
}

/// Whether `text` starts with `scheme` in any case, alone or followed by white space.
fn starts_scheme(text: &[u8], scheme: &[u8]) -> bool {
    let Some((name, rest)) = text.split_at_checked(scheme.len()) else { return false };
    name.eq_ignore_ascii_case(scheme) && rest.first().is_none_or(u8::is_ascii_whitespace)
}

/// Whether a part after a comma starts a new credential (`Basic abc`) and is not a parameter of
/// the one before (`realm="x"`).
fn starts_credential(part: &[u8]) -> bool {
    let word = part.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let two_words = word.len() < part.len() && !word.contains(&b'=');
    two_words || starts_scheme(part, BEARER)
}

/// `b64token` of RFC 6750, section 2.1. Looks at every byte whatever it found, so that the
/// compiler can look at many at once.
fn is_b64token(token: &[u8]) -> bool {
    let padding = token.iter().rev().take_while(|b| **b == b'=').count();
    let body = token.get(..token.len() - padding).unwrap_or_default();
    let allowed = |b: u8| matches!(b, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    !body.is_empty() && body.iter().fold(true, |all, b| all & allowed(*b))
}

impl<'r> Matched<'_, 'r> {
    /// The credential that must be verified for this route; none for an anonymous caller. On a
    /// public route no credential is read.
    ///
    /// # Errors
    ///
    /// `credential_ambiguous`, `credential_malformed`, or `credential_missing` where the route
    /// asks for an authenticated caller.
    pub fn credential(&self) -> Result<Option<Secret<&'r str>>, Refusal> {
        if self.route.access == Access::Public {
            return Ok(None);
        }
        match authorization(self.request) {
            Authorization::Bearer(token) => Ok(Some(token)),
            Authorization::Several => {
                Err(Refusal::new(Code::CredentialAmbiguous, "there is more than one credential"))
            }
            Authorization::Malformed => {
                Err(Refusal::new(Code::CredentialMalformed, "the bearer token is malformed"))
            }
            Authorization::Absent | Authorization::Other => match self.route.access {
                Access::Authenticated => {
                    Err(Refusal::new(Code::CredentialMissing, "there is no bearer token"))
                }
                Access::Public | Access::Optional => Ok(None),
            },
        }
    }
}
