//! What the embedded decider promises.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{Decided, Decider, Embedded, Evaluation, Finish, PolicyConfig, PolicyState, Question};
use crate::clock::{Clock, Now};
use crate::model::{
    Asker, CacheState, Code, Decision, Door, Extras, Fragment, Input, Pairs, Problem, Reason,
    Verdict,
};
use crate::rego::Bundle;
use crate::telemetry::Metrics;

mod answers;
mod cache;
mod evaluate;
mod memory;
mod opa;

/// Takes the verdict as it is and counts.
#[derive(Default)]
struct Plain(AtomicU32);

impl Finish for Plain {
    fn fingerprint(&self) -> crate::model::Digest {
        crate::model::Digest::of("finish", b"plain")
    }

    fn finish(&self, verdict: Verdict, evaluation: Evaluation) -> Decision {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert_ne!(verdict.reason.as_deref(), Some("panic"), "planted");
        let reason = verdict.reason.as_deref().and_then(Reason::from_policy);
        Decision {
            id: evaluation.id,
            allow: verdict.allow,
            reason: reason.unwrap_or(Code::Allowed.into()),
            status: verdict.status,
            headers: Pairs::default(),
            extras: Extras {
                metadata: verdict.metadata,
                constraints: verdict.constraints.map(|value| value.to_string().into()),
                ..Extras::default()
            }
            .kept(),
            revision: evaluation.revision,
            expires: evaluation.expires,
        }
    }
}

/// A decider on one policy, with a clock that stands still.
struct Bench {
    decider: Embedded,
    finish: Arc<Plain>,
    clock: Clock,
    metrics: Metrics,
    state: PolicyState,
}

const RULES: [&str; 3] = ["decision", "timed", "other"];

fn bundle(policy: &str) -> Arc<Bundle> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("policy-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
    let path = std::env::temp_dir().join(format!("{name}.rego"));
    std::fs::write(&path, format!("package p\n{policy}")).unwrap();
    // The name is part of the revision, so tests that compare revisions share it.
    let bundle = Bundle::load(&[PathBuf::from(&path)], &std::env::temp_dir()).unwrap();
    std::fs::remove_file(path).unwrap();
    bundle
}

fn config(policy: &str) -> PolicyConfig {
    let has = |rule: &str| policy.contains(rule);
    let entries: Vec<Value> = RULES
        .iter()
        .filter(|rule| has(rule))
        .map(|rule| json!({"name": rule, "rule": format!("data.p.{rule}"), "reads_time": *rule == "timed"}))
        .collect();
    serde_json::from_value(json!({"paths": ["p"], "entry_points": entries})).unwrap()
}

impl Bench {
    fn new(policy: &str) -> Self {
        let config = config(policy);
        let metrics = Metrics::new();
        let state = PolicyState::new(&config, &metrics, Arc::default()).unwrap();
        Self::on(policy, &config, state, metrics).unwrap()
    }

    fn on(
        policy: &str,
        config: &PolicyConfig,
        state: PolicyState,
        metrics: Metrics,
    ) -> Result<Self, Vec<Problem>> {
        let finish = Arc::new(Plain::default());
        let as_finish: Arc<dyn Finish> = finish.clone();
        let decider = Embedded::new(config, &bundle(policy), &as_finish, state.clone())?;
        Ok(Self { decider, finish, clock: Clock::manual(1_700_000_000), metrics, state })
    }

    fn question(&self, entry: &str, context: &Value) -> Question {
        Question {
            entry_point: entry.into(),
            door: Door::Check,
            input: Input {
                identity: Fragment::new(&json!({"method": "none"})),
                user: None,
                token: None,
                resource: None,
                action: None,
                context: context.to_string().into(),
            },
            now: self.now(),
            cap: None,
            uncached: false,
            open: false,
        }
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    /// As a Check asks: from memory, else evaluated.
    async fn ask(&self, question: &Question) -> Decided {
        let key = self.decider.key(question);
        if let Some(decided) = self.decider.peek(&key, &question.now, Asker::default()) {
            return decided;
        }
        self.decider.resolve(key, question.clone(), Asker::default()).await.unwrap()
    }

    async fn decide(&self, entry: &str, context: Value) -> Arc<Decision> {
        self.ask(&self.question(entry, &context)).await.0
    }

    /// How many evaluations were finished.
    fn evaluations(&self) -> u32 {
        self.finish.0.load(Ordering::SeqCst)
    }
}

fn code(decision: &Decision) -> Option<Code> {
    match decision.reason {
        Reason::Core(code) => Some(code),
        Reason::Policy(_) => None,
    }
}

fn is_hit(decided: &Decided) -> bool {
    decided.1 == CacheState::Hit
}
