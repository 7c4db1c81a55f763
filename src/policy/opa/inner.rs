//! One evaluation by OPA, and under which key its decision is kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::super::kept::Kept;
use super::super::terms::Terms;
use super::super::{Decided, PolicyState, Question};
use super::call::{Answer, Failure, Server};
use super::telling::Telling;
use crate::clock::{Expiry, Now};
use crate::model::{CacheState, Code, Decision, Digest, Door, Parts, Refusal};
use crate::store::Places;

/// The engine's name in a decision's key.
const ENGINE: &str = "opa";

/// What a decider and its tasks share.
pub(super) struct Inner {
    pub(super) entries: HashMap<Arc<str>, Entry>,
    pub(super) server: Server,
    pub(super) state: PolicyState,
    pub(super) telling: Arc<Telling>,
    /// What keys are made of, as of the revision that was told.
    pub(super) current: ArcSwap<Current>,
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

/// Stands for the question whatever its time: one that OPA chokes on says nothing of others.
fn about(question: &Question) -> u64 {
    let key = question.input.key(&question.entry_point, "opa about", question.door, "");
    key.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Inner {
    pub(super) fn key(&self, entry_point: &str, door: Door, input: &Parts<'_>) -> Digest {
        let current = self.current.load();
        let version = current.versions.get(entry_point).map_or("", String::as_str);
        input.key(entry_point, ENGINE, door, version)
    }

    /// Notes the revision that OPA told to a call that began in that turn; keys have the one that
    /// is known from now on. Returns whether it is this one.
    fn tell(&self, revision: Option<&Arc<str>>, began: u64, now: &Now) -> bool {
        let known = self.telling.tell(revision, began, now);
        if self.current.load().revision != known {
            self.current.store(Arc::new(Current::of(&self.entries, known.clone())));
        }
        known.as_ref() == revision
    }

    /// Whether the revision was told too long ago; true once per `clock_ttl` at most.
    pub(super) fn is_due(&self, now: &Now) -> bool {
        self.current.load().revision.is_some() && self.telling.is_due(now, self.clock_ttl)
    }

    pub(super) async fn decide(
        self: Arc<Self>,
        question: Question,
        places: Places,
    ) -> Result<Decided, Failure> {
        let epoch = self.state.generations.epoch();
        let Some(entry) = self.entries.get(&question.entry_point) else {
            let refusal = Refusal::new(Code::InternalError, "unknown entry point");
            return Err(Failure::ours(refusal));
        };
        let time = entry.terms.reads_time.then_some(&question.now);
        let began = self.telling.begin();
        let about = about(&question);
        match self.server.ask(&entry.path, &question.input.to_json(time), about).await {
            Ok(answer) => {
                let decision = self.finished(entry, &question, answer, (began, epoch));
                Ok((decision, CacheState::Miss))
            }
            Err(failure) => match self.last(&question, places) {
                Some(decision) => Ok((decision, CacheState::Stale)),
                None => Err(failure),
            },
        }
    }

    /// The decision for a question that nobody could answer, where its route passes everybody
    /// meanwhile.
    pub(super) fn open(&self, question: &Question) -> Option<Decided> {
        let entry = self.entries.get(&question.entry_point)?;
        Some((Arc::new(entry.terms.open(question)), CacheState::Open))
    }

    /// The decision made of OPA's answer, kept before anyone is told.
    fn finished(
        &self,
        entry: &Entry,
        question: &Question,
        answer: Answer,
        (began, epoch): (u64, u64),
    ) -> Arc<Decision> {
        let Answer { result, revision, decision_id } = answer;
        let in_force = result.is_err() || self.tell(revision.as_ref(), began, &question.now);
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
        if decision_id.is_some() {
            decision.extras.get_or_insert_default().engine_decision_id = decision_id;
        }
        if own_ttl.is_none() && !self.pure {
            decision.expires = None;
        }
        let bounded = |expiry: Expiry| match revision {
            Some(_) => expiry,
            None => expiry.min(Expiry::after(&question.now, self.clock_ttl)),
        };
        decision.expires = decision.expires.map(bounded);
        let decision = Arc::new(decision);
        if !in_force {
            // Of policies that were replaced while it was under way: the answer to this call only.
            return decision;
        }
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
        let began = self.telling.begin();
        if let Ok(answer) = self.server.ask("portcullis/revision", "{}", 0).await
            && answer.result.is_ok()
        {
            self.tell(answer.revision.as_ref(), began, &now);
        }
    }
}
