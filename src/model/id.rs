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
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(32);
        for half in [self.prefix, count] {
            for shift in (0..16).rev() {
                let digit = DIGITS.get((half >> (shift * 4) & 0xf) as usize);
                id.push(char::from(*digit.unwrap_or(&b'0')));
            }
        }
        id.into_boxed_str()
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
