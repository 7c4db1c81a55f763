//! What stands around a value in a store that is not trusted: a version, its end, and a proof
//! that one of ours wrote it, under this key and with this end.

use bytes::Bytes;

use crate::model::Secret;

/// Version of the envelope, then whether it is signed.
const SIGNED: &[u8; 3] = b"P1s";
const UNSIGNED: &[u8; 3] = b"P1u";
/// Version, end, proof.
pub(super) const HEAD: usize = 3 + 8 + 32;

/// The key of the proof; nothing where values are not signed.
#[derive(Clone)]
pub(super) struct Signer(Option<[u8; 32]>);

/// A value that does not verify.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected;

impl Signer {
    pub(super) fn new(key: Option<&Secret<String>>) -> Self {
        // Whatever the key's length and form; the context keeps it apart from other uses.
        let derive = |key: &Secret<String>| {
            blake3::derive_key("portcullis 2026 proof of a store's value", key.expose().as_bytes())
        };
        Self(key.map(derive))
    }

    /// `value` with its envelope; `ends` in nanoseconds since the Unix epoch.
    pub(super) fn seal(&self, key: &str, value: &[u8], ends: i64) -> Vec<u8> {
        let mut whole = Vec::with_capacity(HEAD.saturating_add(value.len()));
        whole.extend_from_slice(if self.0.is_some() { SIGNED } else { UNSIGNED });
        whole.extend_from_slice(&ends.to_le_bytes());
        whole.extend_from_slice(self.proof(key, value, ends).as_bytes());
        whole.extend_from_slice(value);
        whole
    }

    /// The value in `whole`, read under `key` at `now` (nanoseconds since the Unix epoch);
    /// nothing once it has ended.
    pub(super) fn open(
        &self,
        key: &str,
        whole: &Bytes,
        now: i64,
    ) -> Result<Option<Bytes>, Rejected> {
        let version = if self.0.is_some() { SIGNED } else { UNSIGNED };
        let rest = whole.strip_prefix(version.as_slice()).ok_or(Rejected)?;
        let (ends, rest) = rest.split_first_chunk::<8>().ok_or(Rejected)?;
        let (proof, value) = rest.split_first_chunk::<32>().ok_or(Rejected)?;
        let ends = i64::from_le_bytes(*ends);
        // Compared in constant time.
        if self.proof(key, value, ends) != blake3::Hash::from_bytes(*proof) {
            return Err(Rejected);
        }
        Ok((now < ends).then(|| whole.slice_ref(value)))
    }

    /// Keyed hash over key, end and value; without a key, of the same form and no proof.
    fn proof(&self, key: &str, value: &[u8], ends: i64) -> blake3::Hash {
        let mut hasher = match &self.0 {
            Some(secret) => blake3::Hasher::new_keyed(secret),
            None => blake3::Hasher::new(),
        };
        hasher.update(&(key.len() as u64).to_le_bytes());
        hasher.update(key.as_bytes());
        hasher.update(&ends.to_le_bytes());
        hasher.update(value);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Signer {
        Signer::new(Some(&Secret::new("0123456789abcdef0123456789abcdef".to_owned())))
    }

    fn sealed(signer: &Signer) -> Vec<u8> {
        signer.seal("key", b"value", 1000)
    }

    #[test]
    fn a_value_comes_back_until_its_end() {
        for signer in [signer(), Signer::new(None)] {
            let whole = Bytes::from(sealed(&signer));
            assert_eq!(signer.open("key", &whole, 999), Ok(Some(Bytes::from_static(b"value"))));
            assert_eq!(signer.open("key", &whole, 1000), Ok(None));
        }
    }

    #[test]
    fn s5_7_a_changed_moved_or_unsigned_value_does_not_verify() {
        let signer = signer();
        let whole = sealed(&signer);
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(signer.open("key", &Bytes::from(changed), 0), Err(Rejected), "byte {at}");
            let cut = Bytes::from(whole[..at].to_vec());
            assert_eq!(signer.open("key", &cut, 0), Err(Rejected), "cut at {at}");
        }
        let whole = Bytes::from(whole);
        assert_eq!(signer.open("another key", &whole, 0), Err(Rejected));
        let other = Signer::new(Some(&Secret::new("another".repeat(5))));
        assert_eq!(other.open("key", &whole, 0), Err(Rejected));
        let unsigned = Signer::new(None);
        assert_eq!(unsigned.open("key", &whole, 0), Err(Rejected));
        assert_eq!(signer.open("key", &Bytes::from(sealed(&unsigned)), 0), Err(Rejected));
    }
}
