//! Hashes over unambiguous encodings, and JSON that carries its own.

use std::borrow::Cow;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256, digest};

use super::VerifiedToken;

/// A 256-bit hash: SHA-256, which processors have instructions for. What is hashed on every Check
/// is short, and there it takes half of BLAKE3's time, whose speed comes with length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Lower-case hexadecimal, 64 characters.
    #[must_use]
    pub fn to_hex(self) -> String {
        blake3::Hash::from(self.0).to_hex().to_string()
    }

    /// The hash of `bytes` behind this digest, which is the domain: for hashing much without
    /// gathering it. No proof of anything, as an HMAC would be.
    #[must_use]
    pub fn keyed(&self, bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&self.0);
        context.update(bytes);
        Self::from(context.finish())
    }

    /// The plain BLAKE3 hash of `bytes`, as `b3sum` prints it.
    #[must_use]
    pub fn plain(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Reads what [`Digest::to_hex`] wrote, in either case.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// Stands for one issuer's subject; lengths keep the two apart, nothing is folded.
    #[must_use]
    pub fn of_user(issuer: &str, subject: &str) -> Self {
        Hasher::new("user").part(issuer.as_bytes()).part(subject.as_bytes()).finish()
    }

    /// The hash of `bytes` alone, within `domain`.
    #[must_use]
    pub fn of(domain: &'static str, bytes: &[u8]) -> Self {
        Hasher::sized(domain, bytes.len()).part(bytes).finish()
    }
}

impl From<aws_lc_rs::digest::Digest> for Digest {
    fn from(hash: aws_lc_rs::digest::Digest) -> Self {
        let mut bytes = [0; 32];
        // SHA-256 has 32 bytes; a test compares with a known hash.
        for (place, byte) in bytes.iter_mut().zip(hash.as_ref()) {
            *place = *byte;
        }
        Self(bytes)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = blake3::Hash::from(self.0).to_hex();
        f.write_str(hex.get(..12).unwrap_or_default())
    }
}

/// Builds a [`Digest`] over parts. Each part is length-prefixed, so that no two different
/// sequences of parts encode to the same bytes; the domain keeps uses of the hash apart.
///
/// The encoding is gathered and hashed in one go: what is hashed here is small, and the state of
/// an incremental hash is two kilobytes that every step would move.
#[derive(Clone)]
pub struct Hasher(Vec<u8>);

impl Hasher {
    /// Starts a hash within `domain`.
    #[must_use]
    pub fn new(domain: &'static str) -> Self {
        Self::sized(domain, 256)
    }

    /// As [`Hasher::new`], with room for `bytes` of parts.
    #[must_use]
    pub fn sized(domain: &'static str, bytes: usize) -> Self {
        Self(Vec::with_capacity(domain.len() + 16 + bytes)).part(domain.as_bytes())
    }

    /// Adds one part.
    #[must_use]
    pub fn part(mut self, bytes: &[u8]) -> Self {
        self.push(bytes);
        self
    }

    /// Adds one part that may be absent; absent and empty differ.
    #[must_use]
    pub fn optional(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.part(&[1]).part(bytes),
            None => self.part(&[0]),
        }
    }

    /// Adds one part in place.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// The hash of all parts so far.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest::from(digest(&SHA256, &self.0))
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

/// One member of the policy input: compact JSON with the digest of exactly these bytes,
/// computed once, where the value is made.
#[derive(Clone, Debug)]
pub struct Fragment {
    text: Text,
    digest: Digest,
}

#[derive(Clone, Debug)]
enum Text {
    Json(Arc<str>),
    /// The identity of that token. Known callers are recognised by the digest alone.
    Identity(Arc<VerifiedToken>),
}

impl Fragment {
    /// Serialises `value` compactly. Object members are sorted by name (`serde_json`'s map is
    /// ordered), so equal values make equal bytes.
    #[must_use]
    pub fn new(value: &serde_json::Value) -> Self {
        Self::from_json(value.to_string())
    }

    /// Takes JSON text that is compact and canonical already.
    #[must_use]
    pub fn from_json(json: impl Into<Arc<str>>) -> Self {
        let json = json.into();
        Self { digest: Self::digest_of(&json), text: Text::Json(json) }
    }

    /// The digest of a fragment whose text is `json`.
    pub(super) fn digest_of(json: &str) -> Digest {
        Digest::of("fragment", json.as_bytes())
    }

    /// The identity of `token`, whose digest is known.
    pub(super) fn of_token(token: &Arc<VerifiedToken>, digest: Digest) -> Self {
        Self { text: Text::Identity(Arc::clone(token)), digest }
    }

    /// The JSON text.
    #[must_use]
    pub fn json(&self) -> Cow<'_, str> {
        match &self.text {
            Text::Json(text) => Cow::Borrowed(text),
            Text::Identity(token) => Cow::Owned(token.identity().json()),
        }
    }

    /// The digest of the JSON text.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl PartialEq for Fragment {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Fragment {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_parts_cannot_be_shifted_into_one_another() {
        let a = Hasher::new("t").part(b"a:b").part(b"c").finish();
        let b = Hasher::new("t").part(b"a").part(b"b:c").finish();
        assert_ne!(a, b);
        let absent = Hasher::new("t").optional(None).finish();
        let empty = Hasher::new("t").optional(Some(b"")).finish();
        assert_ne!(absent, empty);
    }

    #[test]
    fn a_domain_separates_equal_parts() {
        assert_ne!(Digest::of("one", b"x"), Digest::of("two", b"x"));
        let domain = Digest::of("one", b"");
        assert_ne!(domain.keyed(b"x"), Digest::of("two", b"").keyed(b"x"));
        assert_ne!(domain.keyed(b"x"), domain.keyed(b"y"));
    }

    #[test]
    fn s6_5_the_hash_is_sha_256() {
        // FIPS 180-4's example of one block.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::from(digest(&SHA256, b"abc")).to_hex(), abc);
        let key = Digest::from(digest(&SHA256, b"abc"));
        let joined = [key.as_bytes().as_slice(), b"rest"].concat();
        assert_eq!(key.keyed(b"rest"), Digest::from(digest(&SHA256, &joined)));
    }

    #[test]
    fn an_identity_is_the_text_that_its_digest_is_of() {
        let token = VerifiedToken::about("u\"1", Some("c"), &serde_json::json!({}));
        let identity = token.identity_fragment();
        let text =
            r#"{"client_id":"c","issuer":"https://idp.test","method":"jwt","subject":"u\"1"}"#;
        assert_eq!(identity.json(), text);
        assert_eq!(identity, Fragment::from_json(text));
    }
}
