//! What outlives a configuration: caches, loads under way, generations, the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::load::Loaded;
use super::mapper::MapError;
use super::profile::{Answer, Profile, Span, State};
use super::record::KeyTemplate;
use crate::clock::{Clock, Expiry, Now};
use crate::dependency::Clients;
use crate::model::{Digest, UserContext, VerifiedToken};
use crate::store::{
    Cache, Cached, Flight, Invalidations, Life, Places, Store, StoreError, Target, heap,
};
use crate::telemetry::Metrics;

/// The state of user contexts that outlives a configuration: a reload makes a new
/// [`super::Resolver`] on the same `Shared`.
pub struct Shared {
    /// Contexts by the token's hash.
    pub(super) contexts: Cache<Digest, Mapped>,
    /// Hashes of the mappings that contexts were made under, by which they tell them apart.
    views: Mutex<HashMap<Digest, u32>>,
    pub(super) profiles: Cache<Digest, Arc<Profile>>,
    pub(super) loads: Flight<LoadKey, Loaded>,
    pub(super) mappings: Flight<MapKey, Result<Arc<UserContext>, MapError>>,
    pub(super) invalidations: Arc<Invalidations>,
    /// How the store's keys are made by the configuration in force.
    keys: ArcSwap<KeyTemplate>,
    serial: AtomicU64,
    installing: Mutex<()>,
    pub(super) clients: Clients,
    pub(super) clock: Clock,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// Which loads are one load: the same question about the same user, begun in one generation;
/// with `own`, by one token alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LoadKey {
    pub(super) key: Digest,
    pub(super) asked: Digest,
    pub(super) generation: u64,
    pub(super) own: Option<Digest>,
}

/// Which mappings are one mapping.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MapKey {
    pub(super) token: Digest,
    pub(super) view: u32,
    pub(super) profile: Option<u64>,
    pub(super) stale: bool,
}

/// What a token's user came to.
#[derive(Debug, Clone)]
pub(super) struct Mapped {
    /// His context; none where the user API knows no such user.
    pub(super) user: Option<Arc<UserContext>>,
    /// The profile that it was made of; none where it comes from claims.
    pub(super) profile: Option<Arc<State>>,
    /// Epoch of the generations in which its making began.
    pub(super) epoch: u64,
    pub(super) ends: Expiry,
    /// The mapping and the configuration that it was made under ([`Shared::view`]).
    pub(super) view: u32,
    pub(super) stale: bool,
}

impl Cached for Mapped {
    fn is_past(&self, now: &Now) -> bool {
        let over =
            |state: &Arc<State>| state.is_over() || (self.stale && !state.may_serve_stale(now));
        self.ends.is_past(now) || self.profile.as_ref().is_some_and(over)
    }

    fn bytes(&self) -> usize {
        self.user.as_ref().map_or(0, |context| {
            heap::shared(size_of::<UserContext>()) + heap::shared(context.fragment.json().len())
        })
    }
}

impl Shared {
    /// Empty caches of together at most `bytes`, over the store of `invalidations`.
    #[must_use]
    pub fn new(
        bytes: u64,
        invalidations: Arc<Invalidations>,
        clock: Clock,
        metrics: &Metrics,
    ) -> Arc<Self> {
        Arc::new(Self {
            contexts: Cache::new("context", bytes / 2, metrics),
            views: Mutex::default(),
            profiles: Cache::new("profile", bytes / 2, metrics),
            loads: Flight::default(),
            mappings: Flight::default(),
            invalidations,
            keys: ArcSwap::default(),
            serial: AtomicU64::new(0),
            installing: Mutex::new(()),
            clients: Clients::default(),
            clock,
        })
    }

    /// The number of the view whose hash is `digest`; another view never has it.
    pub(super) fn view(&self, digest: &Digest) -> u32 {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(views.len()).unwrap_or(u32::MAX);
        *views.entry(*digest).or_insert(next)
    }

    /// The epoch now: to be noted before a context is made.
    pub(super) fn epoch(&self) -> u64 {
        self.invalidations.generations().epoch()
    }

    fn lives(&self, mapped: &Mapped, token: &VerifiedToken) -> bool {
        !self.invalidations.generations().moved(mapped.epoch, || token.places)
    }

    /// What is known of `token`'s user, unless an invalidation ended it; counted.
    pub(super) fn context(&self, token: &VerifiedToken, now: &Now) -> Option<Mapped> {
        self.contexts.get_if(&token.hash, now, |mapped| self.lives(mapped, token))
    }

    /// As [`Shared::context`], without counting.
    pub(super) fn peek_context(&self, token: &VerifiedToken, now: &Now) -> Option<Mapped> {
        self.contexts.peek(&token.hash, now).filter(|mapped| self.lives(mapped, token))
    }

    pub(super) fn store(&self) -> &dyn Store {
        &**self.invalidations.store()
    }

    /// Forgets what is known of `subject` of `issuer`, here, in the store and at every replica.
    /// Loads that began before keep nothing; requests that come after do not wait for them.
    /// Returns the invalidation's generation.
    ///
    /// # Errors
    /// If the store could not be told: then it holds for this process alone.
    pub async fn invalidate(&self, issuer: &str, subject: &str) -> Result<u64, StoreError> {
        let user = Digest::of_user(issuer, subject);
        self.profiles.remove(&user);
        let key = self.keys.load().key(issuer, subject);
        self.invalidations.invalidate(&Target::User(user), &[key]).await
    }

    /// From now on the store's keys are made by `keys`.
    pub(super) fn make_keys_by(&self, keys: Arc<KeyTemplate>) {
        self.keys.store(keys);
    }

    /// The last generation that concerns `places`.
    pub(super) fn generation(&self, places: Places) -> u64 {
        self.invalidations.generations().last(places)
    }

    /// The life of what begins to be made now.
    pub(super) fn life(&self, places: Places) -> Life {
        Life::new(self.invalidations.generations(), places)
    }

    /// A profile that is not kept yet.
    pub(super) fn profile(
        &self,
        answer: Answer,
        asked: Digest,
        span: Span,
        life: Life,
    ) -> Arc<Profile> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        Arc::new(Profile::new(serial, answer, asked, span, life))
    }

    /// The profile under `key` that still serves; counted.
    pub(super) fn fresh(&self, key: &Digest, now: &Now) -> Option<Arc<Profile>> {
        self.profiles.get(key, now)
    }

    /// The profile under `key`, even past its end, unless it was replaced or invalidated.
    pub(super) fn last(&self, key: &Digest) -> Option<Arc<Profile>> {
        self.profiles.peek_stale(key).filter(|profile| !profile.state.is_over())
    }

    /// Keeps `profile` in place of an older one, unless it was invalidated while it loaded.
    pub(super) fn install(&self, key: Digest, profile: &Arc<Profile>) {
        let _one_at_a_time = self.installing.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = |kept: &Arc<Profile>| kept.fetched.unix_nanos > profile.fetched.unix_nanos;
        if profile.state.is_invalidated() || self.last(&key).as_ref().is_some_and(newer) {
            profile.state.end();
            return;
        }
        // The cache ends the one that it replaces.
        self.profiles.insert(key, Arc::clone(profile));
    }
}
