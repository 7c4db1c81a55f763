//! What is told of one Check.

use std::fmt;
use std::time::Duration;

use crate::clock::Now;
use crate::model::{Outcome, Reason, Record};

/// How a Check ended, without what the answer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request passed.
    Allow,
    /// It did not.
    Deny,
    /// It could not be decided.
    Unavailable,
}

impl Kind {
    /// The stable name; also the label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Unavailable => "unavailable",
        }
    }

    /// The kind of `outcome`.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Allow(_) => Self::Allow,
            Outcome::Deny(_) => Self::Deny,
            Outcome::Unavailable(_) => Self::Unavailable,
        }
    }
}

/// One Check, as audit keeps it.
#[derive(Debug)]
pub struct Event {
    /// When the Check arrived.
    pub at: Now,
    /// From its arrival to its end.
    pub took: Duration,
    /// How it ended.
    pub kind: Kind,
    /// Why.
    pub reason: Reason,
    /// HTTP status of the answer; 200 for an allow.
    pub status: u16,
    /// What is known of it.
    pub record: Record,
    /// Stands for the subject.
    pub subject_hash: Option<SubjectHash>,
    /// Stands for the decision API's caller.
    pub caller_hash: Option<SubjectHash>,
    /// Method, path, host or source is not as sent: cut, or with bytes that are no UTF-8
    /// replaced.
    pub altered: bool,
}

/// A keyed hash of issuer and subject: equal for one person, and of no use without the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SubjectHash([u8; 16]);

impl SubjectHash {
    /// Hashes under `key`; the parts are length-prefixed, so none runs into the other.
    #[must_use]
    pub(super) fn new(key: &[u8; 32], issuer: &str, subject: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(key);
        for part in [issuer, subject] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut short = [0; 16];
        hasher.finalize_xof().fill(&mut short);
        Self(short)
    }
}

impl fmt::Display for SubjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SubjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
