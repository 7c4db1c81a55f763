//! Who asks the decision API, and what he may do.

use std::sync::Arc;

use super::config::{ApiConfig, HASH_PREFIX, May, key_hash};
use crate::model::{Secret, VerifiedToken};

/// Shortest API key that is looked at: what is hashed without salt must be beyond guessing.
const MIN_KEY: usize = 32;

/// What a caller may do beyond asking about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rights {
    pub assert_user: bool,
    pub other_token: bool,
    pub vouch: bool,
}

impl Rights {
    fn of(may: &[May]) -> Self {
        Self {
            assert_user: may.contains(&May::AssertUser),
            other_token: may.contains(&May::OtherToken),
            vouch: may.contains(&May::Vouch),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            assert_user: self.assert_user || other.assert_user,
            other_token: self.other_token || other.other_token,
            vouch: self.vouch || other.vouch,
        }
    }
}

/// An authenticated caller of the decision API.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its token and the verification of it; none for an API key.
    pub(super) token: Option<(Arc<VerifiedToken>, Secret<String>)>,
    /// Its configured name, where it has one.
    pub(super) name: Option<Arc<str>>,
    pub(super) may: Rights,
}

/// The hash of an API key as the configuration has it.
#[must_use]
pub fn hash_of_key(key: &str) -> String {
    format!("{HASH_PREFIX}{}", blake3::hash(key.as_bytes()).to_hex())
}

/// The configured callers.
#[derive(Debug)]
pub(super) struct Callers {
    keys: Vec<(blake3::Hash, Arc<str>, Rights)>,
    bearers: Vec<(Vec<Box<str>>, Arc<str>, Rights)>,
}

impl Callers {
    pub(super) fn new(config: &ApiConfig) -> Self {
        let mut all = Self { keys: Vec::new(), bearers: Vec::new() };
        for caller in &config.callers {
            let (name, may) = (Arc::from(caller.name.as_str()), Rights::of(&caller.may));
            if let Some(hash) = caller.key_hash.as_deref().and_then(key_hash) {
                all.keys.push((hash, name, may));
            } else {
                let scopes = caller.scopes.iter().map(|scope| scope.as_str().into()).collect();
                all.bearers.push((scopes, name, may));
            }
        }
        all
    }

    /// The caller that `key` belongs to. The key is hashed and its hash compared with every
    /// configured one; `blake3::Hash` compares in constant time, so the time tells neither how
    /// much of a key is right nor whose it is.
    pub(super) fn of_key(&self, key: &str) -> Option<Caller> {
        let shown = blake3::hash(key.as_bytes());
        let mut found = None;
        for (hash, name, may) in &self.keys {
            if *hash == shown {
                found = Some((name, *may));
            }
        }
        let (name, may) = found.filter(|_| key.len() >= MIN_KEY)?;
        Some(Caller { token: None, name: Some(Arc::clone(name)), may })
    }

    /// The caller that `token` belongs to; every entry whose scopes it has adds rights.
    pub(super) fn of_token(&self, token: Arc<VerifiedToken>, bearer: Secret<String>) -> Caller {
        let has =
            |scopes: &[Box<str>]| scopes.iter().all(|scope| token.grant.scopes.contains(scope));
        let mut named = None;
        let mut may = Rights::default();
        for (_, name, rights) in self.bearers.iter().filter(|(scopes, ..)| has(scopes)) {
            may = may.and(*rights);
            named = named.or(Some(name));
        }
        Caller { name: named.cloned(), may, token: Some((token, bearer)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(key: &str) -> Callers {
        let config = serde_json::json!({
            "policy": "p",
            "callers": [{ "name": "a", "key_hash": hash_of_key(key), "may": ["vouch"] },
                        { "name": "b", "key_hash": hash_of_key(&"z".repeat(40)) }],
        });
        let config: ApiConfig = serde_json::from_value(config).unwrap();
        assert_eq!(config.problems(), []);
        Callers::new(&config)
    }

    #[test]
    fn a_key_is_known_by_its_hash_and_by_nothing_like_it() {
        let key = "k".repeat(40);
        let callers = callers(&key);
        let found = callers.of_key(&key).unwrap();
        assert_eq!((found.name.as_deref(), found.may.vouch), (Some("a"), true));
        assert!(!callers.of_key(&"z".repeat(40)).unwrap().may.vouch);
        for wrong in ["", "k", &"k".repeat(39), &"k".repeat(41), &hash_of_key(&key)] {
            assert!(callers.of_key(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_key_that_could_be_guessed_is_nobodys() {
        let key = "k".repeat(MIN_KEY - 1);
        assert!(callers(&key).of_key(&key).is_none());
    }
}
