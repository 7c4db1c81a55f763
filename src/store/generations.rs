//! Generations in memory: what an invalidation raised, and whether that concerns an entry.
//!
//! An entry notes the epoch in which it began to be made. As long as nothing was invalidated
//! since, one comparison says that it serves; else the few places that concern it are looked at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Digest, Place, Places};

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
            places: (0..=Place::COUNT).map(|_| AtomicU64::new(0)).collect(),
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
            Target::User(user) => Place::of_user(user),
            Target::Token(id) => Place::of_token(id),
            Target::Issuer(issuer) => Place::of_issuer(issuer),
            Target::Route(route) => Place::of_route(route),
            Target::Everything => None,
        };
        let counter = at.and_then(|at| self.places.get(at.index()));
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
        let of = |at: Place| self.places.get(at.index()).map(|p| p.load(Ordering::Acquire));
        let raised = places.each().filter_map(of);
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
        Self { generations: Arc::clone(generations), epoch: generations.epoch(), places }
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
    use crate::model::Asker;

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
