//! What the store holds of invalidations: the last ones, and the generations that concern many.
//!
//! A replica that listened all the time knows the head; one that was cut off reads it and finds
//! what it missed. Where the list does not reach back far enough, it missed everything.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Target;
use crate::model::Digest;

/// Invalidations that the head lists.
const LISTED: usize = 128;
/// Issuers with a generation of their own; beyond, all of everything is raised.
const ISSUERS: usize = 64;

/// The invalidation that an entry of the head, or a message, tells of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Raised {
    /// Its generation: no two have the same, and later ones are larger.
    pub(super) at: u64,
    kind: String,
    name: String,
}

impl Raised {
    pub(super) fn new(at: u64, target: &Target) -> Self {
        let name = match target {
            Target::User(hash) | Target::Token(hash) => hash.to_hex(),
            Target::Issuer(name) | Target::Route(name) => name.clone(),
            Target::Everything => String::new(),
        };
        Self { at, kind: target.kind().to_owned(), name }
    }

    /// What it is about; everything where it cannot be read, as of a newer version.
    pub(super) fn target(&self) -> Target {
        let hash = || Digest::from_hex(&self.name);
        let known = match self.kind.as_str() {
            "user" => hash().map(Target::User),
            "token" => hash().map(Target::Token),
            "issuer" => Some(Target::Issuer(self.name.clone())),
            "route" => Some(Target::Route(self.name.clone())),
            _ => None,
        };
        known.unwrap_or(Target::Everything)
    }
}

/// The head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// Generation of the last invalidation; zero before the first.
    pub(super) at: u64,
    everything: u64,
    issuers: BTreeMap<String, u64>,
    recent: Vec<Raised>,
}

impl Head {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// As the store holds it.
    pub(super) fn text(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// The head after an invalidation of `target` at about `nanos` since the Unix epoch. The time
    /// keeps generations apart from those of a head that was lost.
    pub(super) fn after(&self, target: &Target, nanos: u64) -> (Self, Raised) {
        let raised = Raised::new(nanos.max(self.at.saturating_add(1)), target);
        let mut next = self.clone();
        next.take(&raised);
        (next, raised)
    }

    /// Notes `raised`, which follows.
    pub(super) fn take(&mut self, raised: &Raised) {
        self.at = raised.at;
        match raised.target() {
            Target::Issuer(issuer) if self.issuers.len() < ISSUERS => {
                self.issuers.insert(issuer, raised.at);
            }
            Target::Issuer(_) | Target::Everything => {
                self.everything = raised.at;
                self.issuers.clear();
            }
            Target::User(_) | Target::Token(_) | Target::Route(_) => {}
        }
        self.recent.push(raised.clone());
        let spare = self.recent.len().saturating_sub(LISTED);
        self.recent.drain(..spare);
    }

    /// What was invalidated since the head `known` was read; `None` where that cannot be told.
    pub(super) fn since(&self, known: &Self) -> Option<Vec<Target>> {
        if self.at == known.at {
            return Some(Vec::new());
        }
        let begins = known.at == 0 && self.recent.len() < LISTED;
        let listed = self.recent.iter().any(|raised| raised.at == known.at);
        let missed = self.recent.iter().filter(|raised| raised.at > known.at);
        (self.at > known.at && (begins || listed)).then(|| missed.map(Raised::target).collect())
    }

    /// The generations of everything and of `issuer`, as text.
    pub(super) fn generation(&self, issuer: &str) -> String {
        let of_issuer = self.issuers.get(issuer).copied().unwrap_or_default();
        format!("{}.{of_issuer}", self.everything)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(n: u64) -> Target {
        Target::User(Digest::of_user("i", &n.to_string()))
    }

    fn raised(head: &Head, target: &Target) -> Head {
        head.after(target, 1_000).0
    }

    #[test]
    fn what_was_missed_is_told_as_far_as_the_list_reaches_and_else_it_is_everything() {
        let empty = Head::default();
        let one = raised(&empty, &user(1));
        let two = raised(&one, &Target::Issuer("i".to_owned()));
        assert_eq!(two.since(&two), Some(vec![]));
        assert_eq!(two.since(&one), Some(vec![Target::Issuer("i".to_owned())]));
        assert_eq!(two.since(&empty), Some(vec![user(1), Target::Issuer("i".to_owned())]));
        let mut many = two.clone();
        for n in 0..1_000 {
            many = raised(&many, &user(n));
        }
        assert_eq!(many.recent.len(), LISTED);
        assert_eq!(many.since(&two), None);
        assert_eq!(many.since(&empty), None);
        // A head that is older, or another one: the store lost what it held.
        assert_eq!(one.since(&two), None);
        let other = empty.after(&user(7), 5_000).0;
        assert_eq!(other.since(&two), None);
        let text = serde_json::to_vec(&many).unwrap();
        assert_eq!(Head::read(&text), Some(many));
        assert!(text.len() < 32 << 10, "{}", text.len());
    }

    #[test]
    fn generations_of_many_move_and_stay_bounded() {
        let mut head = Head::default();
        let first = head.generation("i");
        head = raised(&head, &user(1));
        assert_eq!(head.generation("i"), first);
        head = raised(&head, &Target::Issuer("j".to_owned()));
        assert_eq!(head.generation("i"), first);
        head = raised(&head, &Target::Issuer("i".to_owned()));
        let second = head.generation("i");
        assert_ne!(second, first);
        for n in 0..1_000 {
            let before = head.generation("i");
            head = raised(&head, &Target::Issuer(n.to_string()));
            assert!(head.issuers.len() <= ISSUERS);
            let moved = head.generation("i") != before;
            assert!(!moved || head.issuers.is_empty(), "all are raised where there are too many");
        }
    }

    #[test]
    fn what_a_newer_version_tells_is_taken_for_everything() {
        let raised = |kind: &str| Raised { at: 1, kind: kind.to_owned(), name: "x".to_owned() };
        assert_eq!(raised("tenant").target(), Target::Everything);
        assert_eq!(raised("user").target(), Target::Everything, "no hash");
        assert_eq!(raised("route").target(), Target::Route("x".to_owned()));
    }
}
