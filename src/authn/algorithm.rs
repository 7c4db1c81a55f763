//! Signature algorithms: those of public keys that `jsonwebtoken` verifies, and no others.

use jsonwebtoken::Algorithm;

const ALL: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// The names, as configuration and tokens write them (RFC 7518, section 3.1; RFC 8037).
pub(super) const NAMES: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// The algorithms of RSA keys.
pub(super) const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The algorithm of that name; never `none`, never HMAC.
pub(super) fn by_name(name: &str) -> Option<Algorithm> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
}
