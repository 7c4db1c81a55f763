//! Decides with the embedded engine.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::kept::Kept;
use super::opa;
use super::terms::Terms;
use super::workers::Workers;
use super::{Decided, Decider, Finish, PolicyConfig, PolicyEngine, Question};
use crate::clock::Now;
use crate::model::{
    Asker, BoxFuture, CacheState, Code, Decision, Digest, Door, Hasher, Parts, Problem, Refusal,
};
use crate::rego::{Bundle, EvalError, Limits, Rule};
use crate::store::{Cache, Flight, Generations, Places};
use crate::telemetry::Metrics;

/// The engine's name in a decision's key.
const ENGINE: &str = "embedded";

/// What outlives a reload: the decision cache, the evaluations under way, and the threads.
/// Decisions of other policies stay in the cache until they end, under keys that nobody asks for.
#[derive(Debug, Clone)]
pub struct PolicyState {
    pub(super) cache: Cache<Digest, Kept>,
    pub(super) generations: Arc<Generations>,
    flight: Flight<Digest, Result<Arc<Decision>, Refusal>>,
    workers: Arc<Workers>,
    /// What only the OPA server's decider needs.
    pub(super) opa: opa::State,
}

impl PolicyState {
    /// An empty cache of the configured size, whose decisions end by invalidations of
    /// `generations`, and one evaluating thread per core.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn new(
        config: &PolicyConfig,
        metrics: &Metrics,
        generations: Arc<Generations>,
    ) -> std::io::Result<Self> {
        let cores = match config.engine {
            PolicyEngine::Embedded => {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }
            PolicyEngine::Opa => 1,
        };
        Ok(Self {
            cache: Cache::new("decision", config.cache.0, metrics),
            generations,
            flight: Flight::default(),
            workers: Arc::new(Workers::new(cores)?),
            opa: opa::State::new(config, metrics),
        })
    }

    /// The decision in memory that may serve `places`; counted.
    pub(super) fn get(
        &self,
        key: &Digest,
        now: &Now,
        places: impl Fn() -> Places,
    ) -> Option<Arc<Decision>> {
        let serves = |kept: &Kept| !self.generations.moved(kept.epoch, &places);
        self.cache.get_if(key, now, serves).map(|kept| kept.decision)
    }

    /// As [`PolicyState::get`], without counting.
    fn peek(&self, key: &Digest, now: &Now, places: Places) -> Option<Arc<Decision>> {
        let kept = self.cache.peek(key, now)?;
        (!self.generations.moved(kept.epoch, || places)).then_some(kept.decision)
    }

    /// What is known by the time a question is loaded, or the key to load it under. What rests on
    /// stale ground neither reads the cache nor joins an evaluation whose result will be kept.
    pub(super) fn known(
        &self,
        key: Digest,
        question: &Question,
        places: Places,
    ) -> ControlFlow<Decided, Digest> {
        if question.uncached {
            return ControlFlow::Continue(Digest::of("uncached", key.as_bytes()));
        }
        match self.peek(&key, &question.now, places) {
            Some(decision) => ControlFlow::Break((decision, CacheState::Hit)),
            None => ControlFlow::Continue(key),
        }
    }
}

/// The embedded engine as a [`Decider`].
pub struct Embedded {
    pub(super) entries: HashMap<Arc<str>, Arc<Entry>>,
    state: PolicyState,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("entries", &self.entries.keys()).finish_non_exhaustive()
    }
}

/// One entry point with all that its decisions depend on beside the input.
pub(super) struct Entry {
    pub(super) rule: Rule,
    /// Stands for all of it in the decision's key.
    version: String,
    terms: Terms,
    limits: Limits,
}

impl Embedded {
    /// Entry points of `config` on the policies of `bundle`.
    ///
    /// # Errors
    /// An entry point whose rule does not exist, or that reads the clock without saying so.
    pub fn new(
        config: &PolicyConfig,
        bundle: &Arc<Bundle>,
        finish: &Arc<dyn Finish>,
        state: PolicyState,
    ) -> Result<Self, Vec<Problem>> {
        let mut entries = HashMap::new();
        let mut problems = Vec::new();
        for (index, entry) in config.entry_points.iter().enumerate() {
            match bundle.rule(&entry.rule, entry.reads_time) {
                Ok(rule) => {
                    let made = Entry::new(config, rule, entry.reads_time, Arc::clone(finish));
                    entries.insert(entry.name.as_str().into(), Arc::new(made));
                }
                Err(problem) => {
                    problems.push(problem.under(&format!("/entry_points/{index}/rule")));
                }
            }
        }
        if problems.is_empty() { Ok(Self { entries, state }) } else { Err(problems) }
    }
}

impl Entry {
    fn new(config: &PolicyConfig, rule: Rule, reads_time: bool, finish: Arc<dyn Finish>) -> Self {
        let terms = Terms::new(config, reads_time, finish);
        let limits = Limits { time: config.limits.time.0, memory: config.limits.memory.as_usize() };
        let version = Hasher::new("entry")
            .part(rule.bundle().revision().as_bytes())
            .part(rule.path().as_bytes())
            .part(&limits.time.as_nanos().to_le_bytes())
            .part(&limits.memory.to_le_bytes())
            .part(terms.fingerprint().as_bytes())
            .finish()
            .to_hex();
        Self { rule, version, terms, limits }
    }

    /// Evaluates; blocks for about the limit of time, longer where the thread is starved. Only
    /// that is no decision.
    fn decide(&self, question: &Question) -> Result<Decision, Refusal> {
        self.answered(question, self.rule.eval(&self.input(question), self.limits))
    }

    /// As [`Entry::decide`], on a thread of the runtime; `None` where that would hold it up.
    fn decide_here(&self, question: &Question) -> Option<Result<Decision, Refusal>> {
        let answer = self.rule.eval_here(&self.input(question), self.limits)?;
        Some(self.answered(question, answer))
    }

    fn input(&self, question: &Question) -> String {
        question.input.to_json(self.terms.reads_time.then_some(&question.now))
    }

    fn answered(
        &self,
        question: &Question,
        answer: Result<Option<serde_json::Value>, EvalError>,
    ) -> Result<Decision, Refusal> {
        let (terms, revision) = (&self.terms, self.rule.bundle().revision());
        let code = match answer {
            Ok(answer) => {
                return Ok(terms.decision(self.rule.path(), question, answer, revision));
            }
            Err(EvalError::Starved) => {
                let detail = "the evaluation was starved of CPU time";
                return Err(Refusal::new(Code::Overloaded, detail));
            }
            Err(EvalError::Time | EvalError::Memory) => Code::EvaluationLimit,
            Err(error @ (EvalError::Input(_) | EvalError::Failed(_))) => {
                // The text may quote the input.
                tracing::debug!(rule = self.rule.path(), %error, "policy failed");
                Code::PolicyError
            }
        };
        Ok(terms.denial(code, question, Some(0.0), revision))
    }
}

impl Decider for Embedded {
    fn key_of(&self, entry_point: &str, door: Door, input: &Parts<'_>) -> Digest {
        let entry = self.entries.get(entry_point);
        let version = entry.map_or("", |entry| entry.version.as_str());
        input.key(entry_point, ENGINE, door, version)
    }

    fn peek(&self, key: &Digest, now: &Now, asker: Asker<'_>) -> Option<Decided> {
        self.state.get(key, now, || Places::of(asker)).map(|decision| (decision, CacheState::Hit))
    }

    fn resolve(
        &self,
        key: Digest,
        question: Question,
        asker: Asker<'_>,
    ) -> BoxFuture<'_, Result<Decided, Refusal>> {
        let places = Places::of(asker);
        Box::pin(async move {
            let state = &self.state;
            let key = match state.known(key, &question, places) {
                ControlFlow::Break(known) => return Ok(known),
                ControlFlow::Continue(key) => key,
            };
            let Some(entry) = self.entries.get(&question.entry_point).cloned() else {
                return Err(Refusal::new(Code::InternalError, "unknown entry point"));
            };
            let load = || evaluate(key, entry, question, state.clone());
            let (_, decided) = state.flight.join(key, load).await;
            let failed = Refusal::new(Code::InternalError, "the evaluation panicked");
            decided.unwrap_or(Err(failed)).map(|decision| (decision, CacheState::Miss))
        })
    }
}

/// Evaluates, here or by a worker, and keeps the decision before anyone is told.
async fn evaluate(
    key: Digest,
    entry: Arc<Entry>,
    question: Question,
    state: PolicyState,
) -> Result<Arc<Decision>, Refusal> {
    let (cache, epoch) = (state.cache.clone(), state.generations.epoch());
    let keep = move |decided: Result<Decision, Refusal>| {
        let decided = decided.map(Arc::new);
        if let Ok(decision) = &decided
            && decision.expires.is_some()
        {
            cache.insert(key, Kept { decision: Arc::clone(decision), epoch });
        }
        decided
    };
    let panicked = || Some(Err(Refusal::new(Code::InternalError, "the evaluation panicked")));
    let here = catch_unwind(AssertUnwindSafe(|| entry.decide_here(&question)));
    if let Some(decided) = here.unwrap_or_else(|_| panicked()) {
        return keep(decided);
    }
    let (send, receive) = oneshot::channel();
    let job = move || {
        let decided = catch_unwind(AssertUnwindSafe(|| Some(entry.decide(&question))));
        let decided = decided.unwrap_or_else(|_| panicked());
        // Nobody waits where the process is ending.
        drop(decided.map(|decided| send.send(keep(decided))));
    };
    if !state.workers.submit(job) {
        return Err(Refusal::new(Code::Overloaded, "too many evaluations wait"));
    }
    // The sender is dropped with a job that waited too long; a panic is caught within the job.
    let late = Refusal::new(Code::Overloaded, "the evaluation waited too long for its turn");
    receive.await.unwrap_or(Err(late))
}
