//! From an engine's answer to a decision: what both engines do alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::result::verdict;
use super::{Evaluation, Finish, PolicyConfig, Question};
use crate::clock::Expiry;
use crate::model::{Code, Decision, DecisionId, Digest, Hasher, Ids};

/// What an entry point's decisions depend on beside input and engine.
pub(super) struct Terms {
    pub(super) reads_time: bool,
    /// Longest lifetime.
    pub(super) ttl: Duration,
    /// Lifetime of a decision that gives none of its own.
    pub(super) default_ttl: Duration,
    finish: Arc<dyn Finish>,
    /// Whether the log has a line on an answer of the wrong shape.
    told: AtomicBool,
}

impl Terms {
    pub(super) fn new(config: &PolicyConfig, reads_time: bool, finish: Arc<dyn Finish>) -> Self {
        let ttl = config.ttl.0;
        let default_ttl = if reads_time { ttl.min(config.clock_ttl.0) } else { ttl };
        Self { reads_time, ttl, default_ttl, finish, told: AtomicBool::new(false) }
    }

    /// Stands for all of it in a decision's key.
    pub(super) fn fingerprint(&self) -> Digest {
        Hasher::new("terms")
            .part(&[u8::from(self.reads_time)])
            .part(&self.ttl.as_nanos().to_le_bytes())
            .part(&self.default_ttl.as_nanos().to_le_bytes())
            .part(self.finish.fingerprint().as_bytes())
            .finish()
    }

    /// The decision of `rule` made of its `answer`; `None` is undefined.
    pub(super) fn decision(
        &self,
        rule: &str,
        question: &Question,
        answer: Option<serde_json::Value>,
        revision: &Arc<str>,
    ) -> Decision {
        let Some(answer) = answer else {
            return self.denial(Code::PolicyUndefined, question, None, revision);
        };
        match verdict(answer) {
            Ok(verdict) => {
                let evaluation = self.evaluation(question, verdict.ttl, revision);
                self.finish.finish(verdict, evaluation)
            }
            Err(misshapen) => {
                // Requests bring it about, so it is said once for these policies.
                if self.told.swap(true, Ordering::Relaxed) {
                    tracing::debug!(rule, misshapen, "policy answer refused");
                } else {
                    tracing::warn!(rule, misshapen, "policy answer refused");
                }
                self.denial(Code::DecisionShape, question, None, revision)
            }
        }
    }

    /// A denial of the core's, where the policy gave no usable answer.
    pub(super) fn denial(
        &self,
        code: Code,
        question: &Question,
        ttl: Option<f64>,
        revision: &Arc<str>,
    ) -> Decision {
        Decision::denied(code, self.evaluation(question, ttl, revision))
    }

    /// The decision where no policy could be asked and the route passes everybody meanwhile.
    pub(super) fn open(&self, question: &Question) -> Decision {
        Decision::open(self.evaluation(question, Some(0.0), &Arc::from("none")))
    }

    fn evaluation(&self, question: &Question, ttl: Option<f64>, revision: &Arc<str>) -> Evaluation {
        Evaluation {
            id: next_id(),
            revision: Arc::clone(revision),
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
        let lifetime = ttl.map_or(self.default_ttl, |secs| seconds(secs).min(self.ttl));
        let expiry = Expiry::after(&question.now, lifetime);
        let expiry = question.cap.map_or(expiry, |cap| expiry.min(cap));
        (!expiry.is_past(&question.now)).then_some(expiry)
    }
}

/// Whole seconds; a number too large for a duration is more than any maximum.
pub(super) fn seconds(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs.floor()).unwrap_or(Duration::MAX)
}

fn next_id() -> DecisionId {
    static IDS: LazyLock<Ids> = LazyLock::new(Ids::default);
    IDS.next_decision()
}
