//! Decides with the embedded engine.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::result::verdict;
use super::workers::Workers;
use super::{Decided, Decider, Evaluation, Finish, PolicyConfig, Question};
use crate::clock::{Expiry, Now};
use crate::model::{
    BoxFuture, CacheState, Code, Decision, DecisionId, Digest, Hasher, Problem, Refusal,
};
use crate::rego::{Bundle, EvalError, Limits, Rule};
use crate::store::{Cache, Cached, Flight};
use crate::telemetry::Metrics;

/// The engine's name in a decision's key.
const ENGINE: &str = "embedded";

/// What outlives a reload: the decision cache, the evaluations under way, and the threads.
/// Decisions of other policies stay in the cache until they end, under keys that nobody asks for.
#[derive(Debug, Clone)]
pub struct PolicyState {
    cache: Cache<Digest, Kept>,
    flight: Flight<Digest, Result<Arc<Decision>, Refusal>>,
    workers: Arc<Workers>,
}

impl PolicyState {
    /// An empty cache of the configured size, and one evaluating thread per core.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn new(config: &PolicyConfig, metrics: &Metrics) -> std::io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            cache: Cache::new("decision", config.cache.0, metrics),
            flight: Flight::default(),
            workers: Arc::new(Workers::new(cores)?),
        })
    }
}

/// A decision in the cache.
#[derive(Clone)]
struct Kept(Arc<Decision>);

impl Cached for Kept {
    fn is_past(&self, now: &Now) -> bool {
        self.0.expires.is_none_or(|expires| expires.is_past(now))
    }

    fn bytes(&self) -> usize {
        let d = &self.0;
        let pairs = |list: &[(Box<str>, Box<str>)]| -> usize {
            list.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        };
        let json = d.constraints.as_deref().into_iter().chain(d.metadata.values()).map(json_bytes);
        size_of::<Decision>()
            + d.message.as_ref().map_or(0, |message| message.len())
            + pairs(&d.headers)
            + pairs(&d.response_headers)
            + json.sum::<usize>()
            // The id and a reason, each with its counts.
            + 128
    }
}

fn json_bytes(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    64 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(json_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + json_bytes(value)).sum()
        }
        _ => 0,
    }
}

/// The embedded engine as a [`Decider`].
pub struct Embedded {
    entries: HashMap<Arc<str>, Arc<Entry>>,
    state: PolicyState,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("entries", &self.entries.keys()).finish_non_exhaustive()
    }
}

/// One entry point with all that its decisions depend on beside the input.
struct Entry {
    rule: Rule,
    reads_time: bool,
    /// Stands for all of it in the decision's key.
    version: String,
    ttl: Duration,
    default_ttl: Duration,
    limits: Limits,
    finish: Arc<dyn Finish>,
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
        let ttl = config.ttl.0;
        let default_ttl = if reads_time { ttl.min(config.clock_ttl.0) } else { ttl };
        let limits = Limits { time: config.limits.time.0, memory: config.limits.memory.as_usize() };
        let number = |duration: Duration| duration.as_nanos().to_le_bytes();
        let version = Hasher::new("entry")
            .part(rule.bundle().revision().as_bytes())
            .part(rule.path().as_bytes())
            .part(&[u8::from(reads_time)])
            .part(&number(ttl))
            .part(&number(default_ttl))
            .part(&number(limits.time))
            .part(&limits.memory.to_le_bytes())
            .part(finish.fingerprint().as_bytes())
            .finish()
            .to_hex();
        Self { rule, reads_time, version, ttl, default_ttl, limits, finish }
    }

    /// Evaluates; blocks for up to the limit of time.
    fn decide(&self, question: &Question) -> Decision {
        let now = &question.now;
        let input = question.input.to_json(self.reads_time.then_some(now));
        let code = match self.rule.eval(&input, self.limits) {
            Ok(Some(answer)) => match verdict(answer) {
                Ok(verdict) => {
                    let evaluation = self.evaluation(question, verdict.ttl);
                    return self.finish.finish(verdict, evaluation);
                }
                Err(misshapen) => {
                    tracing::warn!(rule = self.rule.path(), misshapen, "policy answer refused");
                    Code::DecisionShape
                }
            },
            Ok(None) => Code::PolicyUndefined,
            Err(EvalError::Time | EvalError::Memory) => Code::EvaluationLimit,
            Err(error @ (EvalError::Input(_) | EvalError::Failed(_))) => {
                // The text may quote the input.
                tracing::debug!(rule = self.rule.path(), %error, "policy failed");
                Code::PolicyError
            }
        };
        let failed = matches!(code, Code::EvaluationLimit | Code::PolicyError);
        let evaluation = self.evaluation(question, failed.then_some(0.0));
        denial(code, evaluation)
    }

    fn evaluation(&self, question: &Question, ttl: Option<f64>) -> Evaluation {
        Evaluation {
            id: next_id(),
            revision: Arc::clone(self.rule.bundle().revision()),
            decided_at: question.now,
            expires: self.expires(question, ttl),
        }
    }

    /// `ttl` from the Check's time on, in whole seconds rounded down, within every cap; `None`
    /// where nothing is left of it.
    fn expires(&self, question: &Question, ttl: Option<f64>) -> Option<Expiry> {
        if question.uncached {
            return None;
        }
        let lifetime = match ttl {
            // A number of seconds too large for a duration is more than any maximum.
            Some(secs) => {
                Duration::try_from_secs_f64(secs.floor()).unwrap_or(Duration::MAX).min(self.ttl)
            }
            None => self.default_ttl,
        };
        let expiry = Expiry::after(&question.now, lifetime);
        let expiry = question.cap.map_or(expiry, |cap| expiry.min(cap));
        (!expiry.is_past(&question.now)).then_some(expiry)
    }
}

/// A denial of the core's, where the policy gave no usable answer.
fn denial(code: Code, evaluation: Evaluation) -> Decision {
    Decision {
        id: evaluation.id,
        allow: false,
        reason: code.into(),
        message: None,
        status: None,
        headers: Vec::new(),
        response_headers: Vec::new(),
        metadata: serde_json::Map::new(),
        constraints: None,
        revision: evaluation.revision,
        decided_at: evaluation.decided_at,
        expires: evaluation.expires,
    }
}

/// 128 bits: a random half of the process's own and a counter.
fn next_id() -> DecisionId {
    static PREFIX: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The standard library seeds it from the operating system's randomness.
    let prefix = PREFIX.get_or_init(|| RandomState::new().build_hasher().finish());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix:016x}{number:016x}").into()
}

impl Decider for Embedded {
    fn key(&self, question: &Question) -> Digest {
        let entry = self.entries.get(&question.entry_point);
        let version = entry.map_or("", |entry| entry.version.as_str());
        question.input.key(&question.entry_point, ENGINE, question.door, version)
    }

    fn peek(&self, key: &Digest, now: &Now) -> Option<Decided> {
        self.state.cache.get(key, now).map(|kept| (kept.0, CacheState::Hit))
    }

    fn resolve(&self, key: Digest, question: Question) -> BoxFuture<'_, Result<Decided, Refusal>> {
        Box::pin(async move {
            let state = &self.state;
            // What rests on stale ground neither reads the cache nor joins an evaluation whose
            // result will be kept.
            let key = if question.uncached {
                Digest::of("uncached", key.as_bytes())
            } else {
                if let Some(kept) = state.cache.peek(&key, &question.now) {
                    return Ok((kept.0, CacheState::Hit));
                }
                key
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

/// Has a worker evaluate, and keeps the decision before anyone is told.
async fn evaluate(
    key: Digest,
    entry: Arc<Entry>,
    question: Question,
    state: PolicyState,
) -> Result<Arc<Decision>, Refusal> {
    let (send, receive) = oneshot::channel();
    let cache = state.cache.clone();
    let job = move || {
        let decision = Arc::new(entry.decide(&question));
        if decision.expires.is_some() {
            cache.insert(key, Kept(Arc::clone(&decision)));
        }
        // Nobody waits where the process is ending.
        drop(send.send(decision));
    };
    if !state.workers.submit(job) {
        return Err(Refusal::new(Code::Overloaded, "too many evaluations wait"));
    }
    receive.await.map_err(|_| Refusal::new(Code::InternalError, "the evaluation panicked"))
}
