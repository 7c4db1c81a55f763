//! Who asked: the core's word on identity, and what is known of the user behind it.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::{Digest, Fragment, Places};
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

/// `input.identity`: who asked and how that is known; what is absent is absent.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The issuer's exact `iss`; absent for anonymous.
    pub issuer: Option<&'a str>,
    /// The verified `sub`.
    pub subject: Option<&'a str>,
    /// The client that the token was issued to, where it says so.
    pub client_id: Option<&'a str>,
    /// How the caller authenticated.
    pub method: Method,
}

impl Identity<'_> {
    /// Nobody in particular.
    pub const ANONYMOUS: Self =
        Self { issuer: None, subject: None, client_id: None, method: Method::None };
    /// Whom an authenticated caller of the decision API says he asks for.
    pub const ASSERTED: Self = Self { method: Method::Asserted, ..Self::ANONYMOUS };

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let mut object = Map::new();
        let fields =
            [("issuer", self.issuer), ("subject", self.subject), ("client_id", self.client_id)];
        for (name, value) in fields {
            if let Some(value) = value {
                object.insert(name.to_owned(), value.into());
            }
        }
        object.insert("method".to_owned(), self.method.as_str().into());
        Value::Object(object).to_string()
    }
}

/// What many tokens have alike: all that an issuer gave one client for one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The exact `iss`.
    pub issuer: Arc<str>,
    /// Configured name of the issuer that signed it.
    pub issuer_name: Arc<str>,
    /// The client that the token was issued to, where it says so.
    pub client_id: Option<Arc<str>>,
    /// `aud`, each entry.
    pub audiences: Box<[Box<str>]>,
    /// `scope` or `scp`, each entry.
    pub scopes: Box<[Box<str>]>,
}

/// A token whose signature, issuer, type and times were verified. It holds only what belongs to
/// the token: nothing of the route, the user or the request. A million may be kept, so what a
/// missed decision alone needs is made then.
#[derive(Debug)]
pub struct VerifiedToken {
    /// Shared by tokens that have the same.
    pub grant: Arc<Grant>,
    /// `sub`.
    pub subject: Arc<str>,
    /// Digest of `input.identity`.
    identity: Digest,
    /// The declared claims, as `input.token`.
    pub claims: Fragment,
    /// `exp`, ended by whichever clock is first; leeway is included.
    pub expires: Expiry,
    /// `nbf` less the leeway, nanoseconds since the Unix epoch.
    pub not_before_nanos: Option<i64>,
    /// Hash of the whole token and of the verifier's configuration.
    pub hash: Digest,
    /// Which invalidations concern it.
    pub places: Places,
    pseudonym: OnceLock<[u8; 16]>,
}

impl VerifiedToken {
    /// A token of `grant` about `subject`. `hash` covers the token and the verifier's
    /// configuration, `id` is the token's plain BLAKE3 hash, its name in an invalidation.
    #[must_use]
    pub fn new(
        grant: Arc<Grant>,
        subject: Arc<str>,
        claims: Fragment,
        (expires, not_before_nanos): (Expiry, Option<i64>),
        (hash, id): (Digest, Digest),
    ) -> Self {
        let user = Digest::of_user(&grant.issuer, &subject);
        let places = Places::of_token(&id, &user, &grant.issuer);
        let identity = Fragment::digest_of(&Self::identity_of(&grant, &subject).json());
        let pseudonym = OnceLock::new();
        Self {
            grant,
            subject,
            identity,
            claims,
            expires,
            not_before_nanos,
            hash,
            places,
            pseudonym,
        }
    }

    fn identity_of<'a>(grant: &'a Grant, subject: &'a str) -> Identity<'a> {
        Identity {
            issuer: Some(&grant.issuer),
            subject: Some(subject),
            client_id: grant.client_id.as_deref(),
            method: Method::Jwt,
        }
    }

    /// Who it names.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Self::identity_of(&self.grant, &self.subject)
    }

    /// Digest of `input.identity`.
    #[must_use]
    pub fn identity_digest(&self) -> &Digest {
        &self.identity
    }

    /// `input.identity`; its text is made where somebody reads it.
    #[must_use]
    pub fn identity_fragment(self: &Arc<Self>) -> Fragment {
        Fragment::of_token(self, self.identity)
    }

    /// What stands for its issuer and subject where they are not told in clear: what `made` makes
    /// of them the first time. Every caller's `made` is the same.
    #[must_use]
    pub fn pseudonym(&self, made: impl FnOnce() -> [u8; 16]) -> [u8; 16] {
        *self.pseudonym.get_or_init(made)
    }

    /// Stands for its issuer and subject.
    #[must_use]
    pub fn user(&self) -> Digest {
        Digest::of_user(&self.grant.issuer, &self.subject)
    }
}

#[cfg(test)]
impl VerifiedToken {
    /// A token of `https://idp.test` about `subject`, for tests; it ends in 1970.
    pub(crate) fn about(subject: &str, client: Option<&str>, claims: &Value) -> Arc<Self> {
        let grant = Grant {
            issuer: "https://idp.test".into(),
            issuer_name: "main".into(),
            client_id: client.map(Into::into),
            audiences: [].into(),
            scopes: [].into(),
        };
        let end = Expiry::at_unix_secs(&crate::clock::Clock::manual(0).now(), 60);
        let names = (Digest::of("test", subject.as_bytes()), Digest::plain(subject.as_bytes()));
        Self::new(grant.into(), subject.into(), Fragment::new(claims), (end, None), names).into()
    }
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
