//! Generations in memory: what an invalidation raised, and whether that concerns an entry.
//!
//! An entry notes the epoch in which it began to be made. As long as nothing was invalidated
//! since, one comparison says that it serves; else the few places that concern it are looked at.
//! Places are a fixed number of counters that users, tokens, issuers and routes share by hash: a
//! collision costs a load, never an old answer, and nothing grows with what was invalidated.

use std::hash::{DefaultHasher, Hasher as _};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Asker, Digest, VerifiedToken};

/// 64 KiB of counters; with a million users known, an invalidation costs some hundred a load.
const PLACES: u16 = 8192;

/// What an invalidation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One user ([`Digest::of_user`]).
    User(Digest),
    /// One token, by its plain hash.
    Token(Digest),
    /// All that came by an issuer's tokens; its exact `iss`.
    Issuer(String),
    /// What was decided at a route, by its name.
    Route(String),
    /// All there is.
    Everything,
}

impl Target {
    /// The metric label's value.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Token(_) => "token",
            Self::Issuer(_) => "issuer",
            Self::Route(_) => "route",
            Self::Everything => "everything",
        }
    }
}

/// The places that concern one entry: eight bytes, as each cached value has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places([Option<NonZeroU16>; 4]);

fn place(kind: u8, name: &[u8]) -> Option<NonZeroU16> {
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(kind);
    hasher.write(name);
    // Counted from one; the first counter is nobody's.
    u16::try_from(hasher.finish() % u64::from(PLACES) + 1).ok().and_then(NonZeroU16::new)
}

impl Places {
    /// Of what belongs to `token`.
    #[must_use]
    pub fn of_token(token: &VerifiedToken) -> Self {
        let issuer = token.identity.issuer.as_deref();
        Self([
            place(0, token.user.as_bytes()),
            place(1, token.id.as_bytes()),
            issuer.and_then(|issuer| place(2, issuer.as_bytes())),
            None,
        ])
    }

    /// Of what belongs to a user, whatever the token.
    #[must_use]
    pub fn of_user(user: &Digest, issuer: &str) -> Self {
        Self([place(0, user.as_bytes()), None, place(2, issuer.as_bytes()), None])
    }

    /// Of what is answered to `asker`.
    #[must_use]
    pub fn of(asker: Asker<'_>) -> Self {
        let Self([user, token, issuer, _]) = asker.token.map_or(Self([None; 4]), Self::of_token);
        Self([user, token, issuer, place(3, asker.route.as_bytes())])
    }
}

/// The generations of a process.
pub struct Generations {
    /// Rises with every invalidation, after the place that it concerns.
    epoch: AtomicU64,
    everything: AtomicU64,
    /// The epoch that each place was raised in last.
    places: Box<[AtomicU64]>,
    raising: Mutex<()>,
}

impl std::fmt::Debug for Generations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Generations({})", self.epoch())
    }
}

impl Default for Generations {
    fn default() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            everything: AtomicU64::new(0),
            places: (0..=PLACES).map(|_| AtomicU64::new(0)).collect(),
            raising: Mutex::new(()),
        }
    }
}

impl Generations {
    /// The epoch now: to be noted before anything is read that an entry is made of.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// What was made before of `target`, or is being made, serves no more.
    pub fn raise(&self, target: &Target) {
        let _one_at_a_time = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.epoch.load(Ordering::Acquire).saturating_add(1);
        let at = match target {
            Target::User(user) => place(0, user.as_bytes()),
            Target::Token(id) => place(1, id.as_bytes()),
            Target::Issuer(issuer) => place(2, issuer.as_bytes()),
            Target::Route(route) => place(3, route.as_bytes()),
            Target::Everything => None,
        };
        let counter = at.and_then(|at| self.places.get(usize::from(at.get())));
        // The place first: who sees the new epoch sees the place.
        counter.unwrap_or(&self.everything).store(next, Ordering::Release);
        self.epoch.store(next, Ordering::Release);
    }

    /// Whether anything that concerns `places` was raised after the epoch `since`.
    #[must_use]
    pub fn moved(&self, since: u64, places: impl FnOnce() -> Places) -> bool {
        self.epoch() != since && self.last(places()) > since
    }

    /// The epoch in which anything that concerns `places` was raised last.
    #[must_use]
    pub fn last(&self, places: Places) -> u64 {
        let of = |at: NonZeroU16| {
            self.places.get(usize::from(at.get())).map(|p| p.load(Ordering::Acquire))
        };
        let raised = places.0.into_iter().flatten().filter_map(of);
        raised.fold(self.everything.load(Ordering::Acquire), u64::max)
    }
}

/// What an entry's making began in, and whether an invalidation ended it since.
#[derive(Debug, Clone)]
pub struct Life {
    generations: Arc<Generations>,
    epoch: u64,
    places: Places,
}

impl Life {
    /// Begins now, for what concerns `places`.
    #[must_use]
    pub fn new(generations: &Arc<Generations>, places: Places) -> Self {
        Self::since(generations, generations.epoch(), places)
    }

    /// Began in `epoch`, which was noted before.
    #[must_use]
    pub fn since(generations: &Arc<Generations>, epoch: u64, places: Places) -> Self {
        Self { generations: Arc::clone(generations), epoch, places }
    }

    /// Whether it was ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.generations.moved(self.epoch, || self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(subject: &str) -> Digest {
        Digest::of_user("i", subject)
    }

    #[test]
    fn s5_8_an_invalidation_ends_what_it_covers_and_nothing_that_begins_after() {
        let generations = Arc::new(Generations::default());
        let route = |name: &str| Places::of(Asker { token: None, route: name });
        let lives = || {
            let of = |places| Life::new(&generations, places);
            [
                of(Places::of_user(&user("ann"), "i")),
                of(Places::of_user(&user("bob"), "i")),
                of(Places::of_user(&user("ann"), "j")),
                of(route("r")),
            ]
        };
        let over = |lives: &[Life; 4]| lives.each_ref().map(Life::is_over);
        for (target, ended) in [
            (Target::User(user("ann")), [true, false, true, false]),
            (Target::Issuer("i".to_owned()), [true, true, false, false]),
            (Target::Route("r".to_owned()), [false, false, false, true]),
            (Target::Token(Digest::plain(b"t")), [false; 4]),
            (Target::Everything, [true; 4]),
        ] {
            let before = lives();
            generations.raise(&target);
            assert_eq!(over(&before), ended, "{target:?}");
            assert_eq!(over(&lives()), [false; 4], "{target:?}");
        }
    }
}
