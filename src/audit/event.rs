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
pub struct SubjectHash(pub(super) [u8; 16]);

impl SubjectHash {
    /// Hashes under `key`; the parts are length-prefixed, so none runs into the other.
    #[must_use]
    pub(super) fn new(key: &[u8; 32], issuer: &str, subject: &str) -> Self {
        // Gathered and hashed in one go, as the state of an incremental hash is two kilobytes.
        let mut parts = Vec::with_capacity(16 + issuer.len() + subject.len());
        for part in [issuer, subject] {
            parts.extend_from_slice(&(part.len() as u64).to_le_bytes());
            parts.extend_from_slice(part.as_bytes());
        }
        let [short @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
            *blake3::keyed_hash(key, &parts).as_bytes();
        Self(short)
    }

    /// 32 lower-case hexadecimal digits, written to `place`.
    pub(crate) fn hex<'p>(&self, place: &'p mut [u8; 32]) -> &'p str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (pair, byte) in place.chunks_exact_mut(2).zip(self.0) {
            for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 0xf]) {
                *digit = DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
            }
        }
        std::str::from_utf8(place).unwrap_or_default()
    }
}

impl fmt::Display for SubjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex(&mut [0; 32]))
    }
}

impl fmt::Debug for SubjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
