//! The last good decisions, which may serve while OPA fails.

use std::sync::{Arc, Mutex, PoisonError};

use super::super::kept::Kept;
use super::super::terms::seconds;
use super::super::{Decided, PolicyConfig, Question};
use super::call::Failure;
use super::config::OnOpaFailure;
use super::inner::Inner;
use super::telling::Telling;
use crate::clock::{Expiry, Now};
use crate::dependency::Clients;
use crate::model::{Decision, Digest};
use crate::store::{Cache, Cached, Flight, Places};
use crate::telemetry::Metrics;

/// What outlives a reload beside the cache of decisions.
#[derive(Debug, Clone)]
pub(in crate::policy) struct State {
    /// By the key, and the generation in which a question came.
    pub(super) flight: Flight<(Digest, u64), Result<Decided, Failure>>,
    /// The connections, limits and breaker.
    pub(super) clients: Arc<Clients>,
    /// What was told by the server at that URL.
    telling: Arc<Mutex<(String, Arc<Telling>)>>,
    /// The last good answer to a question, by its key without a revision.
    stale: Cache<Digest, Last>,
}

impl State {
    pub(in crate::policy) fn new(config: &PolicyConfig, metrics: &Metrics) -> Self {
        let stale = config.opa.as_ref().is_some_and(|opa| opa.on_failure == OnOpaFailure::Stale);
        let bytes = if stale { config.cache.0 } else { 0 };
        Self {
            flight: Flight::default(),
            clients: Arc::default(),
            telling: Arc::default(),
            stale: Cache::new("stale_decision", bytes, metrics),
        }
    }

    /// What is known of the server at `url`; nothing of another one's is.
    pub(super) fn telling(&self, url: &str) -> Arc<Telling> {
        let mut known = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != url {
            *known = (url.to_owned(), Arc::default());
        }
        Arc::clone(&known.1)
    }
}

/// A decision that may serve while OPA fails.
#[derive(Clone)]
struct Last(Kept, Expiry);

impl Cached for Last {
    fn is_past(&self, now: &Now) -> bool {
        self.1.is_past(now)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Inner {
    /// The key of the last good answer, whatever the revision.
    fn stale_key(&self, question: &Question) -> Digest {
        let version = self.entries.get(&question.entry_point).map_or("", |entry| &entry.version);
        question.input.key(&question.entry_point, "opa stale", question.door, version)
    }

    pub(super) fn last(&self, question: &Question, places: Places) -> Option<Arc<Decision>> {
        if self.stale_for.is_zero() || question.uncached {
            return None;
        }
        let stays = |last: &Last| !self.state.generations.moved(last.0.epoch, || places);
        let key = self.stale_key(question);
        let last = self.state.opa.stale.get_if(&key, &question.now, stays)?;
        // The cap of this Check's token and user context counts, not only that of the one before.
        let ended = question.cap.is_some_and(|cap| cap.is_past(&question.now));
        (!ended).then_some(last.0.decision)
    }

    pub(super) fn keep_last(
        &self,
        question: &Question,
        kept: Kept,
        expires: Expiry,
        own_ttl: Option<f64>,
    ) {
        if self.stale_for.is_zero() {
            return;
        }
        let left = expires.left(&question.now).saturating_add(self.stale_for);
        // A policy's own `ttl` says when its answer ends, whoever fails.
        let left = own_ttl.map_or(left, |secs| left.min(seconds(secs)));
        let end = Expiry::after(&question.now, left);
        let end = question.cap.map_or(end, |cap| end.min(cap));
        self.state.opa.stale.insert(self.stale_key(question), Last(kept, end));
    }

    pub(super) fn forget(&self, question: &Question) {
        if !self.stale_for.is_zero() && !question.uncached {
            self.state.opa.stale.remove(&self.stale_key(question));
        }
    }
}
