//! The keys of one issuer: held, kept fresh, and never lost to a bad answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use jsonwebtoken::Algorithm;

use super::config::KeysConfig;
use super::fetch::{Fetched, Fetcher};
use super::jwks::{Key, Parsed};
use super::keyset::KeySet;
use crate::clock::{Clock, Expiry, Now};
use crate::model::{Code, Digest, Refusal};
use crate::store::Flight;
use crate::telemetry::{HeldKeys, Metrics};

/// How an issuer stands, for `/ready?verbose`.
#[derive(Debug, Clone)]
pub struct IssuerState {
    /// Configured name.
    pub name: Arc<str>,
    /// Readiness waits for it.
    pub required: bool,
    /// Number of usable keys.
    pub keys: usize,
    /// When keys were last fetched or read well.
    pub last_good: Option<Now>,
    /// What the last fetch failed at and why, if it did.
    pub last_error: Option<Arc<str>>,
}

/// What last happened.
#[derive(Debug, Default)]
struct State {
    good: Option<Now>,
    error: Option<Arc<str>>,
    body: Option<Digest>,
    /// When a token with an unknown key last caused a fetch.
    asked: Option<Now>,
    /// When the next fetch is due; whoever keeps the keys fresh goes on where another left off.
    due: Option<tokio::time::Instant>,
}

/// Bounds on how often keys are fetched and how long they serve.
#[derive(Debug, Clone)]
struct Timing {
    refresh: Duration,
    min: Duration,
    max: Duration,
    cooldown: Duration,
    last_good_for: Duration,
}

/// A number that no other set of this process has, so that what rests on one set is never taken
/// to rest on another's, also not across configurations.
fn next_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The keys of one issuer.
pub(super) struct Keys {
    name: Arc<str>,
    required: bool,
    set: ArcSwap<KeySet>,
    fetcher: Option<Fetcher>,
    flight: Flight<(), Result<Duration, Arc<str>>>,
    /// Tokens that wait for a fetch on their behalf.
    asked: Flight<(), ()>,
    state: Mutex<State>,
    timing: Timing,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Keys {
    /// No keys yet; `fetcher` is `None` where they come from a file.
    pub(super) fn new(
        name: &str,
        required: bool,
        config: &KeysConfig,
        fetcher: Option<Fetcher>,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let timing = Timing {
            refresh: config.refresh.0,
            min: config.refresh_min.0,
            max: config.refresh_max.0.max(config.refresh_min.0),
            cooldown: config.cooldown.0,
            last_good_for: config.last_good_for.0,
        };
        Arc::new(Self {
            name: name.into(),
            required,
            set: ArcSwap::default(),
            fetcher,
            flight: Flight::default(),
            asked: Flight::default(),
            state: Mutex::default(),
            timing,
            clock,
            metrics,
        })
    }

    /// Begins with the keys that `before` holds, so that the same key stays the same allocation
    /// and nothing is lost to a change of settings around it.
    pub(super) fn seeded(self: Arc<Self>, before: &Self) -> Arc<Self> {
        self.set.store(before.set.load_full());
        let theirs = before.state();
        let (good, error, body) = (theirs.good, theirs.error.clone(), theirs.body);
        drop(theirs);
        let mut state = self.state();
        (state.good, state.error, state.body) = (good, error, body);
        drop(state);
        self
    }

    /// The set that is held now; the cheap way.
    pub(super) fn set(&self) -> Guard<Arc<KeySet>> {
        self.set.load()
    }

    /// Whether keys were ever there. A bad answer never takes them away again.
    pub(super) fn loaded(&self) -> bool {
        !self.set.load().keys.is_empty()
    }

    pub(super) fn required(&self) -> bool {
        self.required
    }

    /// How this issuer stands.
    pub(super) fn issuer_state(&self) -> IssuerState {
        let state = self.state();
        IssuerState {
            name: Arc::clone(&self.name),
            required: self.required,
            keys: self.set.load().keys.len(),
            last_good: state.good,
            last_error: state.error.clone(),
        }
    }

    /// What is held, for metrics, with the configured name.
    pub(super) fn held(&self) -> (Arc<str>, HeldKeys) {
        let (set, good) = (self.set.load(), self.state().good);
        let secs = |end: Expiry| end.unix_nanos().div_euclid(1_000_000_000);
        let held = HeldKeys {
            usable: set.keys.len(),
            loaded: good.map(|now| now.unix_secs()),
            fresh_until: set.fresh_until.map(secs),
            serve_until: set.serves_until.map(secs),
        };
        (Arc::clone(&self.name), held)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The set in which a token with this header finds its keys. One that is not there is looked
    /// for with a fetch, at most one per cooldown; whoever meets a fetch waits for it.
    pub(super) async fn find(
        self: &Arc<Self>,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: &Now,
    ) -> Result<Arc<KeySet>, Refusal> {
        let set = self.set.load_full();
        let serves = set.serves(now);
        if serves {
            if set.candidates(kid, algorithm).next().is_some() {
                return Ok(set);
            }
            if kid.is_some_and(|kid| set.has_kid(kid)) {
                return Err(Refusal::new(Code::TokenAlgorithm, "the key is for other algorithms"));
            }
            if kid.is_none() {
                // Asking again would let every token without kid cause a fetch.
                return Err(Refusal::new(Code::TokenKeyUnknown, "no key for the algorithm"));
            }
        }
        if self.fetcher.is_some() {
            self.ask(now).await;
        }
        let set = self.set.load_full();
        if !set.serves(now) {
            return Err(Refusal::new(Code::KeysUnavailable, "no keys of the issuer are held"));
        }
        if set.candidates(kid, algorithm).next().is_some() {
            return Ok(set);
        }
        if self.state().error.is_some() {
            return Err(Refusal::new(Code::KeysUnavailable, "the last fetch of keys failed"));
        }
        Err(Refusal::new(Code::TokenKeyUnknown, "kid is none of the issuer's"))
    }

    /// A fetch on behalf of a token, unless one was within the cooldown; waits for whichever
    /// fetch is under way.
    async fn ask(self: &Arc<Self>, now: &Now) {
        let idle = self.asked.under_way() == 0 && self.flight.under_way() == 0;
        if idle && self.is_cooling(&self.state(), now) {
            return;
        }
        let (this, now) = (Arc::clone(self), *now);
        // The turn is taken where the flight is entered, so that nobody sees the turn taken and
        // no flight to wait for.
        let load = || {
            let turn = this.take_turn(&now);
            async move {
                if turn {
                    let _ = this.refresh().await;
                } else {
                    this.flight.wait(&()).await;
                }
            }
        };
        self.asked.join((), load).await;
    }

    fn is_cooling(&self, state: &State, now: &Now) -> bool {
        let since = state.asked.map(|last| now.mono.saturating_duration_since(last.mono));
        since.is_some_and(|since| since < self.timing.cooldown)
    }

    fn take_turn(&self, now: &Now) -> bool {
        let mut state = self.state();
        let turn = !self.is_cooling(&state, now);
        if turn {
            state.asked = Some(*now);
        }
        turn
    }

    /// Fetches, or waits for the fetch that is under way. Returns when to fetch next.
    async fn refresh(self: &Arc<Self>) -> Result<Duration, Arc<str>> {
        let this = Arc::clone(self);
        let (_, result) = self.flight.join((), || async move { this.fetch().await }).await;
        result.unwrap_or_else(|| Err("the fetch failed inside".into()))
    }

    async fn fetch(&self) -> Result<Duration, Arc<str>> {
        let Some(fetcher) = &self.fetcher else { return Err("nothing to fetch".into()) };
        let result = match fetcher.fetch().await {
            Ok(brought) => self.take(brought).map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            // One line for each change, not for each try.
            if self.state().error.replace(Arc::clone(error)).as_ref() == Some(error) {
                tracing::debug!(issuer = %self.name, %error, "the issuer's keys: still the same");
            } else {
                tracing::warn!(issuer = %self.name, %error, "the issuer's keys could not be fetched");
            }
        }
        result
    }

    fn take(&self, fetched: Fetched) -> Result<Duration, &'static str> {
        let timing = &self.timing;
        let fresh = fetched.fresh_for.unwrap_or(timing.refresh).clamp(timing.min, timing.max);
        let serves_for = fresh.max(timing.last_good_for);
        self.install(fetched.parsed, fetched.body, Some((fresh, serves_for)))?;
        Ok((fresh * 4 / 5).max(timing.min))
    }

    /// Puts a good set in the place of the one that is held; `lifetimes` are how long it is fresh
    /// and how long it serves. A key that stays is the same
    /// allocation, so that what it verified stays verified.
    pub(super) fn install(
        &self,
        parsed: Parsed,
        body: Digest,
        lifetimes: Option<(Duration, Duration)>,
    ) -> Result<(), &'static str> {
        let now = self.clock.now();
        let news = self.state().body.replace(body) != Some(body);
        if news {
            for (place, why) in &parsed.skipped {
                tracing::warn!(issuer = %self.name, place, why, "a key is left out");
            }
        }
        if parsed.keys.is_empty() {
            return Err("the key set holds no usable key");
        }
        let skipped = if news { parsed.skipped.len() } else { 0 };
        let old = self.set.load();
        let keep = |key: Key| {
            let known = old.keys.iter().find(|known| known.id == key.id);
            known.cloned().unwrap_or_else(|| Arc::new(key))
        };
        let keys: Vec<_> = parsed.keys.into_iter().map(keep).collect();
        let unchanged =
            keys.len() == old.keys.len() && keys.iter().all(|key| old.contains(key.serial));
        let generation = if unchanged { old.generation } else { next_generation() };
        let fresh_until = lifetimes.map(|(fresh, _)| Expiry::after(&now, fresh));
        let serves_until = lifetimes.map(|(_, serves)| Expiry::after(&now, serves));
        self.set.store(Arc::new(KeySet { keys, serves_until, fresh_until, generation }));
        let mut state = self.state();
        state.good = Some(now);
        if state.error.take().is_some() {
            tracing::info!(issuer = %self.name, "the issuer's keys are fetched again");
        }
        drop(state);
        self.metrics.issuer_keys(&self.name, self.held().1, skipped);
        Ok(())
    }

    /// Fetches at once and then again and again before the keys' freshness ends; after failures
    /// later and later. Never returns where there is something to fetch.
    pub(super) async fn keep_fresh(self: Arc<Self>) {
        if self.fetcher.is_none() {
            return;
        }
        let mut failures = 0;
        let due = self.state().due;
        if let Some(due) = due {
            tokio::time::sleep_until(due).await;
        }
        loop {
            let pause = if let Ok(next) = self.refresh().await {
                failures = 0;
                next
            } else {
                failures += 1;
                self.backoff(failures)
            };
            let due = tokio::time::Instant::now() + pause;
            self.state().due = Some(due);
            tokio::time::sleep_until(due).await;
        }
    }

    /// Doubles from a second (or the shortest refresh, if that is shorter) up to four: what comes
    /// back must be seen within five seconds, also where no token asks for a fetch.
    fn backoff(&self, failures: u32) -> Duration {
        let first = self.timing.min.min(Duration::from_secs(1));
        let factor = 1_u32 << failures.saturating_sub(1).min(2);
        (first * factor).min(self.timing.max).min(Duration::from_secs(4))
    }
}
