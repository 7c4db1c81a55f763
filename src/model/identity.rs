//! Who asked: the core's word on identity, and what is known of the user behind it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Claims, Digest, Fragment};
use crate::clock::Expiry;

/// How the caller authenticated; the core's word, never a claim's or a profile's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// No credential: anonymous.
    None,
    /// A JWT whose signature, issuer, audience and times were verified.
    Jwt,
    /// An authenticated caller of the decision API says who it is; nobody verified that.
    Asserted,
}

impl Method {
    /// The name in `input.identity.method`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Jwt => "jwt",
            Self::Asserted => "asserted",
        }
    }
}

/// `input.identity`: who asked and how that is known.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The issuer's exact `iss`; absent for anonymous.
    pub issuer: Option<Arc<str>>,
    /// The verified `sub`.
    pub subject: Option<Arc<str>>,
    /// The client that the token was issued to, where it says so.
    pub client_id: Option<Arc<str>>,
    /// How the caller authenticated.
    pub method: Method,
    /// `input.identity` as JSON; what is absent is absent.
    pub fragment: Fragment,
}

impl Identity {
    /// An identity whose fragment is made from its own fields.
    #[must_use]
    pub fn new(
        issuer: Option<Arc<str>>,
        subject: Option<Arc<str>>,
        client_id: Option<Arc<str>>,
        method: Method,
    ) -> Self {
        let mut object = Map::new();
        let fields = [("issuer", &issuer), ("subject", &subject), ("client_id", &client_id)];
        for (name, value) in fields {
            if let Some(value) = value {
                object.insert(name.to_owned(), json!(&**value));
            }
        }
        object.insert("method".to_owned(), json!(method.as_str()));
        let fragment = Fragment::new(&Value::Object(object));
        Self { issuer, subject, client_id, method, fragment }
    }

    /// Nobody in particular.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(None, None, None, Method::None)
    }
}

/// A token whose signature, issuer, type and times were verified. It holds only what belongs to
/// the token: nothing of the route, the user or the request.
#[derive(Debug)]
pub struct VerifiedToken {
    /// Who it names.
    pub identity: Identity,
    /// Configured name of the issuer that signed it.
    pub issuer_name: Arc<str>,
    /// The declared claims (`input.token`).
    pub claims: Claims,
    /// The declared claims as `input.token`.
    pub claims_fragment: Fragment,
    /// `aud`, each entry; shared by tokens that have the same.
    pub audiences: Arc<[Box<str>]>,
    /// `scope` or `scp`, each entry; shared by tokens that have the same.
    pub scopes: Arc<[Box<str>]>,
    /// `exp`, ended by whichever clock is first; leeway is included.
    pub expires: Expiry,
    /// `nbf` less the leeway, nanoseconds since the Unix epoch.
    pub not_before_nanos: Option<i64>,
    /// Hash of the whole token and of the verifier's configuration.
    pub hash: Digest,
    /// Plain BLAKE3 hash of the whole token: its name in an invalidation.
    pub id: Digest,
    /// Stands for its issuer and subject ([`Digest::of_user`]).
    pub user: Digest,
}

/// On whose behalf and where a decision is asked for: whose invalidations concern the answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asker<'a> {
    /// The caller's token; none for anonymous callers and asserted users.
    pub token: Option<&'a VerifiedToken>,
    /// Name of the route.
    pub route: &'a str,
}

/// What a route asks of a token beyond its being valid.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    /// Configured names of the issuers that may have signed it; empty: every configured one.
    pub issuers: Vec<Arc<str>>,
    /// One of these must be in `aud`; empty: whatever the issuer's configuration asks.
    pub audiences: Vec<Box<str>>,
    /// All of these must be in the token's scopes.
    pub scopes: Vec<Box<str>>,
}

/// What is known of the user: the mapped answer of the user API, or of the claims.
#[derive(Debug, Clone)]
pub struct UserContext {
    /// `input.user`, always a JSON object.
    pub fragment: Fragment,
    /// A decision on this context lives no longer.
    pub expires: Option<Expiry>,
    /// The context is past its lifetime and serves because the user API failed; it is marked
    /// on every answer and a decision on it is not cached.
    pub stale: bool,
}
