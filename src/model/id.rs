//! Ids that are unique across processes and cost no system call.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out 128-bit ids: half is random per source, half counts. They name things; they are no
/// secret and protect nothing.
#[derive(Debug)]
pub struct Ids {
    prefix: u64,
    next: AtomicU64,
}

impl Default for Ids {
    fn default() -> Self {
        // `RandomState` is seeded by the operating system once per process and differs per value.
        let random = RandomState::new();
        Self { prefix: random.hash_one(0_u8), next: AtomicU64::new(random.hash_one(1_u8)) }
    }
}

impl Ids {
    /// The next id: 32 lower-case hexadecimal digits.
    pub fn next(&self) -> Box<str> {
        (*self.next_decision()).into()
    }

    /// The next id, as the name of a decision.
    pub fn next_decision(&self) -> DecisionId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'0'; 32];
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        for (half, number) in text.chunks_exact_mut(16).zip([self.prefix, count]) {
            for (pair, byte) in half.chunks_exact_mut(2).zip(number.to_be_bytes()) {
                for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 0xf]) {
                    *digit = DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
                }
            }
        }
        DecisionId(text)
    }
}

/// Names one evaluation: 32 ASCII characters, which every Check takes along that its cached answer
/// serves.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecisionId([u8; 32]);

impl std::ops::Deref for DecisionId {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl std::fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

/// A name for a test: the text, filled up with zeros.
#[cfg(test)]
impl From<&str> for DecisionId {
    fn from(text: &str) -> Self {
        let mut id = [b'0'; 32];
        id[..text.len()].copy_from_slice(text.as_bytes());
        Self(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_32_hex_digits_and_differ_within_and_across_sources() {
        let (a, b) = (Ids::default(), Ids::default());
        let mut ids: Vec<_> = (0..100).flat_map(|_| [a.next(), b.next()]).collect();
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|c| c.is_ascii_hexdigit())));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 200);
    }
}
