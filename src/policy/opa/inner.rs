//! One evaluation by OPA, and under which key its decision is kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::super::kept::Kept;
use super::super::terms::Terms;
use super::super::{Decided, PolicyState, Question};
use super::call::{Answer, Server};
use crate::clock::{Expiry, Now};
use crate::model::{CacheState, Code, Decision, Digest, Refusal};
use crate::store::Places;

/// The engine's name in a decision's key.
const ENGINE: &str = "opa";

/// What a decider and its tasks share.
pub(super) struct Inner {
    pub(super) entries: HashMap<Arc<str>, Entry>,
    pub(super) server: Server,
    pub(super) state: PolicyState,
    pub(super) current: ArcSwap<Current>,
    /// When OPA last told its revision, nanoseconds since the Unix epoch.
    pub(super) told: AtomicI64,
    pub(super) clock_ttl: Duration,
    pub(super) pure: bool,
    /// How long past its end a decision may serve; zero for `closed`.
    pub(super) stale_for: Duration,
}

/// One entry point.
pub(super) struct Entry {
    pub(super) rule: Box<str>,
    pub(super) path: Box<str>,
    pub(super) version: Box<str>,
    pub(super) terms: Terms,
}

/// The revision that OPA told last, and what stands for each entry point in keys under it.
pub(super) struct Current {
    revision: Option<Arc<str>>,
    versions: HashMap<Arc<str>, String>,
}

impl Current {
    pub(super) fn of(entries: &HashMap<Arc<str>, Entry>, revision: Option<Arc<str>>) -> Self {
        let under = revision.as_deref().unwrap_or_default();
        let versions = entries
            .iter()
            .map(|(name, entry)| (Arc::clone(name), format!("{}/{under}", entry.version)))
            .collect();
        Self { revision, versions }
    }
}

impl Inner {
    pub(super) fn key(&self, question: &Question) -> Digest {
        let current = self.current.load();
        let version = current.versions.get(&question.entry_point).map_or("", String::as_str);
        question.input.key(&question.entry_point, ENGINE, question.door, version)
    }

    /// Notes the revision that OPA tells; from now on keys have it.
    fn tell(&self, revision: Option<&Arc<str>>, now: &Now) {
        self.told.store(now.unix_nanos, Ordering::Relaxed);
        if self.current.load().revision.as_ref() != revision {
            self.current.store(Arc::new(Current::of(&self.entries, revision.cloned())));
        }
    }

    /// Whether the revision was told too long ago; true once per `clock_ttl` at most.
    pub(super) fn is_due(&self, now: &Now) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        let patience = i64::try_from(self.clock_ttl.as_nanos()).unwrap_or(i64::MAX);
        let due = now.unix_nanos.saturating_sub(told) > patience;
        let swap = |to| self.told.compare_exchange(told, to, Ordering::Relaxed, Ordering::Relaxed);
        due && self.current.load().revision.is_some() && swap(now.unix_nanos).is_ok()
    }

    pub(super) async fn decide(
        self: Arc<Self>,
        question: Question,
        places: Places,
    ) -> Result<Decided, Refusal> {
        let epoch = self.state.generations.epoch();
        let Some(entry) = self.entries.get(&question.entry_point) else {
            return Err(Refusal::new(Code::InternalError, "unknown entry point"));
        };
        let time = entry.terms.reads_time.then_some(&question.now);
        match self.server.ask(&entry.path, &question.input.to_json(time)).await {
            Ok(answer) => Ok((self.finished(entry, &question, answer, epoch), CacheState::Miss)),
            Err(refusal) => match self.last(&question, places) {
                Some(decision) => Ok((decision, CacheState::Stale)),
                None => Err(refusal),
            },
        }
    }

    /// The decision made of OPA's answer, kept before anyone is told.
    fn finished(
        &self,
        entry: &Entry,
        question: &Question,
        answer: Answer,
        epoch: u64,
    ) -> Arc<Decision> {
        let Answer { result, revision, decision_id } = answer;
        if result.is_ok() {
            self.tell(revision.as_ref(), &question.now);
        }
        let shown = revision.clone().unwrap_or_else(|| "none".into());
        let own_ttl = match &result {
            Ok(Some(result)) => result.get("ttl").and_then(serde_json::Value::as_f64),
            Ok(None) => None,
            Err(_) => Some(0.0),
        };
        let (rule, terms) = (&entry.rule, &entry.terms);
        let mut decision = match result {
            Ok(result) => terms.decision(rule, question, result, &shown),
            Err(code) => terms.denial(code, question, Some(0.0), &shown),
        };
        decision.engine_decision_id = decision_id;
        if own_ttl.is_none() && !self.pure {
            decision.expires = None;
        }
        let bounded = |expiry: Expiry| match revision {
            Some(_) => expiry,
            None => expiry.min(Expiry::after(&question.now, self.clock_ttl)),
        };
        decision.expires = decision.expires.map(bounded);
        let decision = Arc::new(decision);
        if let Some(expires) = decision.expires {
            let kept = Kept { decision: Arc::clone(&decision), epoch };
            self.state.cache.insert(self.key_under(revision.as_deref(), question), kept.clone());
            self.keep_last(question, kept, expires, own_ttl);
        } else {
            // What came before must not outlive an answer that is not to be kept.
            self.forget(question);
        }
        decision
    }

    /// The key under the revision of the answer itself: another may have told a newer one since.
    fn key_under(&self, revision: Option<&str>, question: &Question) -> Digest {
        let version = self.entries.get(&question.entry_point).map_or("", |entry| &entry.version);
        let version = format!("{version}/{}", revision.unwrap_or_default());
        question.input.key(&question.entry_point, ENGINE, question.door, &version)
    }

    /// Asks for the revision alone, in the background.
    pub(super) async fn probe(self: Arc<Self>, now: Now) {
        if let Ok(answer) = self.server.ask("portcullis/revision", "{}").await {
            self.tell(answer.revision.as_ref(), &now);
        }
    }
}
