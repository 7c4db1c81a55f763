//! Which invalidations concern a value.
//!
//! Users, tokens, issuers and routes share a fixed number of places by hash: a collision costs a
//! load, never an old answer, and nothing grows with what was invalidated.

use std::hash::{DefaultHasher, Hasher as _};
use std::num::NonZeroU16;

use super::{Asker, Digest};

/// A place that one user, token, issuer or route shares with a few others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(NonZeroU16);

impl Place {
    /// How many there are; with a million users known, an invalidation costs some hundred a load.
    pub const COUNT: u16 = 8192;

    fn new(kind: u8, name: &[u8]) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(kind);
        hasher.write(name);
        // Counted from one, so that none takes no room of its own.
        let at = u16::try_from(hasher.finish() % u64::from(Self::COUNT) + 1).ok()?;
        NonZeroU16::new(at).map(Self)
    }

    /// Of a user ([`Digest::of_user`]).
    #[must_use]
    pub fn of_user(user: &Digest) -> Option<Self> {
        Self::new(0, user.as_bytes())
    }

    /// Of a token, by its plain hash.
    #[must_use]
    pub fn of_token(id: &Digest) -> Option<Self> {
        Self::new(1, id.as_bytes())
    }

    /// Of an issuer, by its exact `iss`.
    #[must_use]
    pub fn of_issuer(issuer: &str) -> Option<Self> {
        Self::new(2, issuer.as_bytes())
    }

    /// Of a route, by its name.
    #[must_use]
    pub fn of_route(name: &str) -> Option<Self> {
        Self::new(3, name.as_bytes())
    }

    /// From one to [`Place::COUNT`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0.get())
    }
}

/// The places that concern one value: eight bytes, as each verified token has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places([Option<Place>; 4]);

impl Places {
    /// Of what belongs to the token `id` of `user`.
    #[must_use]
    pub fn of_token(id: &Digest, user: &Digest, issuer: &str) -> Self {
        Self([Place::of_user(user), Place::of_token(id), Place::of_issuer(issuer), None])
    }

    /// Of what belongs to a user, whatever the token.
    #[must_use]
    pub fn of_user(user: &Digest, issuer: &str) -> Self {
        Self([Place::of_user(user), None, Place::of_issuer(issuer), None])
    }

    /// Of what is answered to `asker`.
    #[must_use]
    pub fn of(asker: Asker<'_>) -> Self {
        let Self([user, token, issuer, _]) =
            asker.token.map_or(Self([None; 4]), |token| token.places);
        Self([user, token, issuer, Place::of_route(asker.route)])
    }

    /// Each of them.
    pub fn each(self) -> impl Iterator<Item = Place> {
        self.0.into_iter().flatten()
    }
}
