//! Input → decision.

mod config;
mod embedded;
mod kept;
mod opa;
mod result;
mod terms;
mod workers;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::clock::{Expiry, Now};
pub use crate::model::Evaluation;
use crate::model::{
    Asker, BoxFuture, CacheState, Decision, Digest, Door, Input, Parts, Refusal, Verdict,
};

pub use config::{EntryPointConfig, EvaluationLimits, PolicyConfig, PolicyEngine};
pub use embedded::{Embedded, PolicyState};
pub use opa::{ClientCertificate, OnOpaFailure, Opa, OpaConfig};

/// A decision with where it came from.
pub type Decided = (Arc<Decision>, CacheState);

/// One question to a policy.
#[derive(Debug, Clone)]
pub struct Question {
    /// Configured name of the entry point.
    pub entry_point: Arc<str>,
    /// Which kind of listener asks.
    pub door: Door,
    /// The document that the policy sees.
    pub input: Input,
    /// The Check's own time.
    pub now: Now,
    /// No decision on this input may live longer (token, user context).
    pub cap: Option<Expiry>,
    /// The input rests on stale or open ground: the decision is not cached.
    pub uncached: bool,
    /// While the engine fails, this question's route passes everybody.
    pub open: bool,
}

/// Decides by policy.
pub trait Decider: Send + Sync {
    /// The decision key of a question: a hash of the whole input and of what else decides.
    fn key_of(&self, entry_point: &str, door: Door, input: &Parts<'_>) -> Digest;

    /// The decision key of `question`.
    fn key(&self, question: &Question) -> Digest {
        self.key_of(&question.entry_point, question.door, &question.input.parts())
    }

    /// From memory alone; `None` where it must be evaluated. What was decided before an
    /// invalidation that concerns `asker` does not serve.
    fn peek(&self, key: &Digest, now: &Now, asker: Asker<'_>) -> Option<Decided>;

    /// Evaluates, or waits for the evaluation of the same question that is under way.
    fn resolve(
        &self,
        key: Digest,
        question: Question,
        asker: Asker<'_>,
    ) -> BoxFuture<'_, Result<Decided, Refusal>>;
}

/// Finishes a verdict once per evaluation: stamps header documents, serialises and checks every
/// header, maps the reason. The respond stage does it; the wiring hands it in.
pub trait Finish: Send + Sync {
    /// The decision made of `verdict`; a verdict whose headers break a rule becomes a denial.
    fn finish(&self, verdict: Verdict, evaluation: Evaluation) -> Decision;

    /// A hash of the configuration that finishing depends on. It is part of every decision's
    /// key, so that after a reload no decision is served that was finished by other rules.
    fn fingerprint(&self) -> Digest;
}
