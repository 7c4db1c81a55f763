//! One load of one user's profile: store, then user API.

use std::sync::Arc;
use std::time::Duration;

use super::ask::Ask;
use super::config::{ContextConfig, OnFailure};
use super::profile::{Answer, Profile, Span};
use super::record::{self, KeyTemplate, Stored};
use super::shared::Shared;
use super::user_api::{Api, Call, Failure};
use super::view::View;
use crate::clock::{Expiry, Now};
use crate::model::{CacheState, Digest, Refusal, Secret, VerifiedToken};
use crate::store::Life;

/// What a load came to, for all who wait for it.
#[derive(Debug, Clone)]
pub(super) enum Loaded {
    /// A profile, or that there is no such user; and where it was found.
    Found(Arc<Profile>, CacheState),
    /// The API refused the bearer of the token `by`: the matter of whoever brought it.
    Refused { by: Digest, refusal: Refusal },
    /// The API failed.
    Failed(Failure),
}

/// How long things serve.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetimes {
    pub(super) ttl: Duration,
    unknown_ttl: Duration,
    refresh_ahead: Duration,
    /// Zero where nothing serves past its end.
    stale_for: Duration,
}

impl Lifetimes {
    pub(super) fn new(config: &ContextConfig) -> Self {
        let api = config.user_api.as_ref();
        let stale_for = api
            .filter(|api| api.on_failure == OnFailure::Stale)
            .and_then(|api| api.stale_for)
            .map_or(Duration::ZERO, |bound| bound.0);
        Self {
            ttl: config.ttl.0,
            unknown_ttl: config.unknown_ttl.0,
            refresh_ahead: config.refresh_ahead(),
            stale_for,
        }
    }

    /// The longest that anything is kept, in memory or in the store.
    pub(super) fn longest(&self) -> Duration {
        self.ttl.max(self.unknown_ttl).saturating_add(self.stale_for)
    }

    fn of(&self, answer: &Answer) -> (Duration, Duration) {
        match answer {
            Answer::Known { .. } => (self.ttl, self.stale_for),
            Answer::Unknown => (self.unknown_ttl, Duration::ZERO),
        }
    }

    /// The span of `answer`, fetched at `fetched`.
    fn span(&self, answer: &Answer, fetched: Now) -> Span {
        let (ttl, stale_for) = self.of(answer);
        Span {
            fetched,
            expires: Expiry::after(&fetched, ttl),
            stale_until: Expiry::after(&fetched, ttl.saturating_add(stale_for)),
            refresh_ahead: self.refresh_ahead,
        }
    }

    /// The span of a profile out of the store, read at `now`: never longer than had it been
    /// fetched now.
    fn span_of_stored(&self, stored: &Stored, now: &Now) -> Span {
        let (ttl, stale_for) = self.of(&stored.answer);
        let left = i128::from(stored.expires) - i128::from(now.unix_nanos);
        let nanos = |n: i128| Duration::from_nanos(u64::try_from(n.max(0)).unwrap_or(u64::MAX));
        let stale_nanos = i128::try_from(stale_for.as_nanos()).unwrap_or(i128::from(i64::MAX));
        Span {
            fetched: stored.fetched,
            expires: Expiry::after(now, nanos(left).min(ttl)),
            stale_until: Expiry::after(
                now,
                nanos(left + stale_nanos).min(ttl.saturating_add(stale_for)),
            ),
            refresh_ahead: self.refresh_ahead,
        }
    }
}

/// A load, with all it needs; it goes on where whoever began it leaves.
pub(super) struct Job {
    pub(super) shared: Arc<Shared>,
    pub(super) api: Arc<Api>,
    pub(super) view: Arc<View>,
    pub(super) lifetimes: Lifetimes,
    pub(super) keys: Arc<KeyTemplate>,
    pub(super) ask: Ask,
    pub(super) token: Arc<VerifiedToken>,
    pub(super) bearer: Secret<String>,
    /// The profile that the load is to improve on.
    pub(super) instead_of: Option<Arc<Profile>>,
}

impl Job {
    /// Loads. Ends within the time-outs of store, user API and mapping rule.
    pub(super) async fn run(self) -> Loaded {
        if self.ask.shared {
            self.shared.invalidations.ready().await;
        }
        let now = self.shared.clock.now();
        let life = self.shared.life(self.ask.places);
        if let Some(profile) = self.in_memory(&now) {
            return Loaded::Found(profile, CacheState::Hit);
        }
        let (generation, stored) = self.stored(&now, &life).await;
        if let Some(profile) = stored.as_ref().filter(|profile| !profile.expires.is_past(&now))
            && self.view.of_profile(&self.shared, &self.token, profile, false).await.is_ok()
        {
            self.shared.install(self.ask.key, profile);
            return Loaded::Found(Arc::clone(profile), CacheState::Store);
        }
        match self.api.call(self.ask.url.clone(), &self.ask.user, &self.bearer).await {
            Call::Answer(answer) => {
                let loaded = self.answered(answer, now, life, stored).await;
                if let (Loaded::Found(profile, _), Some(generation)) = (&loaded, generation) {
                    self.write(profile, &generation).await;
                }
                loaded
            }
            Call::Refused(refusal) => {
                if let Some(last) = self.shared.last(&self.ask.key) {
                    last.state.note_answer();
                }
                Loaded::Refused { by: self.ask.token, refusal }
            }
            Call::Failed(failure) => self.failed(failure, stored),
        }
    }

    /// A load that ended just now may have brought it.
    fn in_memory(&self, now: &Now) -> Option<Arc<Profile>> {
        let profile = self.shared.last(&self.ask.key)?;
        let old = |old: &Arc<Profile>| old.state.serial == profile.state.serial;
        let serves = !profile.expires.is_past(now) && profile.fits(&self.ask);
        (serves && !self.instead_of.as_ref().is_some_and(old)).then_some(profile)
    }

    /// The user's generation in the store, and the record if it verifies, is of that generation
    /// and is newer than what the load is to improve on. It may be past its end. Where the
    /// generation is not known, no record can be believed, and none may be written.
    async fn stored(&self, now: &Now, life: &Life) -> (Option<String>, Option<Arc<Profile>>) {
        if !self.ask.shared {
            return (None, None);
        }
        let (ask, shared) = (&self.ask, &self.shared);
        let key = self.keys.key(&ask.issuer, &ask.subject);
        let generation = shared.invalidations.generation(&ask.user, &ask.issuer);
        let (generation, bytes) = tokio::join!(generation, shared.store().get(&key));
        let Ok(generation) = generation else { return (None, None) };
        let bytes = bytes.ok().flatten();
        let stored = bytes.and_then(|b| record::decode(&b, ask, &self.api, &generation, now));
        let old = self.instead_of.as_ref();
        let newer = |stored: &Stored| {
            old.is_none_or(|old| old.fetched.unix_nanos < stored.fetched.unix_nanos)
        };
        let profile = stored.filter(newer).map(|stored| {
            let span = self.lifetimes.span_of_stored(&stored, now);
            shared.profile(stored.answer, ask.asked, span, life.clone())
        });
        (Some(generation), profile)
    }

    async fn answered(
        &self,
        answer: Answer,
        fetched: Now,
        life: Life,
        stored: Option<Arc<Profile>>,
    ) -> Loaded {
        let span = self.lifetimes.span(&answer, fetched);
        let profile = self.shared.profile(answer, self.ask.asked, span, life);
        if !profile.fits(&self.ask) {
            let detail = "the user API answered with another person's profile";
            return self.failed(Failure::new(detail), stored);
        }
        let mapped = self.view.of_profile(&self.shared, &self.token, &profile, false).await;
        if let Err(error) = mapped {
            return self.failed(Failure::new(error.as_str()), stored);
        }
        self.shared.install(self.ask.key, &profile);
        Loaded::Found(profile, CacheState::Miss)
    }

    /// Lets other replicas, and this one after a restart, find `profile`, which was loaded in
    /// `generation`: one that was invalidated meanwhile verifies nowhere. A store that fails costs
    /// them a load.
    async fn write(&self, profile: &Profile, generation: &str) {
        if !self.shared.store().is_shared() {
            return;
        }
        let key = self.keys.key(&self.ask.issuer, &self.ask.subject);
        let (ttl, stale_for) = self.lifetimes.of(&profile.answer);
        let record = record::encode(&self.ask, profile, generation);
        let store = self.shared.store();
        let _ = match record.filter(|_| !profile.state.is_invalidated()) {
            Some(record) => store.set(&key, record, ttl.saturating_add(stale_for)).await,
            None => store.delete(&key).await,
        };
    }

    /// Notes the failure at what may serve in spite of it.
    fn failed(&self, failure: Failure, stored: Option<Arc<Profile>>) -> Loaded {
        let now = self.shared.clock.now();
        let last = self.shared.last(&self.ask.key).filter(|last| last.fits(&self.ask));
        let last = last.or_else(|| {
            let known = |profile: &Arc<Profile>| matches!(profile.answer, Answer::Known { .. });
            let stored = stored.filter(known)?;
            self.shared.install(self.ask.key, &stored);
            Some(stored)
        });
        if let Some(last) = last {
            last.state.note_failure(&now, failure.retry_after);
        }
        Loaded::Failed(failure)
    }
}
