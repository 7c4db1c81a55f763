//! The embedded engine and a real OPA server behind the one port, and what happens when OPA
//! fails.

mod faults;
mod lasting;
mod story;

use std::path::Path;
use std::sync::Arc;

use portcullis::clock::{Clock, Now};
use portcullis::model::{
    Asker, CacheState, Code, Decision, Digest, Door, Extras, Fragment, Input, Pairs, Reason,
    Refusal, Verdict,
};
use portcullis::policy::{
    Decided, Decider, Embedded, Evaluation, Finish, Opa as OpaDecider, PolicyConfig, PolicyState,
    Question,
};
use portcullis::rego::Bundle;
use portcullis::telemetry::Metrics;
use serde_json::{Value, json};

use crate::harness::{Folder, Opa, port};

/// Answers by `input.context.case`.
const POLICY: &str = r#"package p

answers := {
	"yes": {"allow": true, "reason": "owner", "ttl": 60, "metadata": {"revision": "one"}},
	"pure": {"allow": true, "reason": "pure"},
	"never": {"allow": true, "reason": "never", "ttl": 0},
	"no": {"allow": false, "reason": "no_role", "status": 404, "ttl": 60},
	"true": true,
	"false": false,
	"null": null,
	"text": "true",
	"mistyped": {"allowed": true},
	"strange": {"allow": true, "extra": 1},
	"ttl": {"allow": true, "ttl": "60"},
	"status": {"allow": true, "status": 403},
}

decision := answers[input.context.case]

decision := {"allow": true, "reason": "conflict"} if input.context.case == "yes_and_conflict"

decision := {"allow": false} if input.context.case == "yes_and_conflict"
"#;

/// Takes the verdict as it is.
struct Plain;

impl Finish for Plain {
    fn fingerprint(&self) -> Digest {
        Digest::of("finish", b"plain")
    }

    fn finish(&self, verdict: Verdict, evaluation: Evaluation) -> Decision {
        Decision {
            id: evaluation.id,
            allow: verdict.allow,
            reason: verdict.reason.as_deref().and_then(Reason::from_policy).unwrap_or(
                if verdict.allow { Code::Allowed.into() } else { Code::PolicyDenied.into() },
            ),
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

fn settings(opa: Option<Value>) -> PolicyConfig {
    let mut config = json!({"entry_points": [{"name": "e", "rule": "data.p.decision"}]});
    match opa {
        Some(opa) => {
            config["engine"] = "opa".into();
            config["opa"] = opa;
        }
        None => config["paths"] = json!(["bundle"]),
    }
    let config: PolicyConfig = serde_json::from_value(config).unwrap();
    assert!(config.problems().is_empty(), "{:?}", config.problems());
    config
}

/// A decider as a Check asks it.
struct Bench {
    decider: Arc<dyn Decider>,
    /// What outlives a reload.
    state: (PolicyState, Arc<Metrics>),
    clock: Clock,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn embedded(folder: &Folder) -> Self {
        Self::new(&settings(None), |config, finish, state, _| {
            let bundle = Bundle::load(&config.paths, folder.path()).unwrap();
            Arc::new(Embedded::new(config, &bundle, finish, state).unwrap())
        })
    }

    fn opa(url: &str, more: &Value) -> Self {
        Self::new(&Self::settings(url, more), |config, finish, state, metrics| {
            Arc::new(OpaDecider::new(config, finish, state, metrics, Path::new("/")).unwrap())
        })
    }

    /// Another configuration on what outlives this one.
    fn reloaded(&self, url: &str, more: &Value) -> Self {
        let (state, metrics) = &self.state;
        let config = Self::settings(url, more);
        Self::new(&config, |config, finish, _, _| {
            let state = state.clone();
            Arc::new(OpaDecider::new(config, finish, state, metrics, Path::new("/")).unwrap())
        })
    }

    fn settings(url: &str, more: &Value) -> PolicyConfig {
        let mut opa = json!({"url": url, "timeout": "2s"});
        opa.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        settings(Some(opa))
    }

    fn new(
        config: &PolicyConfig,
        make: impl FnOnce(
            &PolicyConfig,
            &Arc<dyn Finish>,
            PolicyState,
            &Arc<Metrics>,
        ) -> Arc<dyn Decider>,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let state = PolicyState::new(config, &metrics, Arc::default()).unwrap();
        let finish: Arc<dyn Finish> = Arc::new(Plain);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let decider = make(config, &finish, state.clone(), &metrics);
        let clock = Clock::manual(1_700_000_000);
        Self { decider, state: (state, metrics), clock, runtime }
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn question(&self, case: &str) -> Question {
        Question {
            entry_point: "e".into(),
            door: Door::Check,
            input: Input {
                identity: Fragment::new(&json!({"method": "none"})),
                user: None,
                token: None,
                resource: None,
                action: None,
                context: json!({"case": case}).to_string().into(),
            },
            now: self.now(),
            cap: None,
            uncached: false,
            open: false,
        }
    }

    fn ask(&self, case: &str) -> Result<Decided, Refusal> {
        self.put(self.question(case))
    }

    fn put(&self, question: Question) -> Result<Decided, Refusal> {
        self.runtime.block_on(async {
            let key = self.decider.key(&question);
            match self.decider.peek(&key, &question.now, Asker::default()) {
                Some(decided) => Ok(decided),
                None => self.decider.resolve(key, question, Asker::default()).await,
            }
        })
    }

    /// Where a second answer to the same question comes from.
    fn again(&self, case: &str) -> CacheState {
        let first = self.ask(case).unwrap();
        let second = self.ask(case).unwrap();
        assert_eq!(first.0.id == second.0.id, second.1 == CacheState::Hit);
        second.1
    }
}

/// A folder with the policy as a bundle, of a revision if one is named.
fn bundle(policy: &str, revision: &str) -> Folder {
    let folder = Folder::new();
    write(&folder, policy, revision);
    folder
}

fn write(folder: &Folder, policy: &str, revision: &str) {
    std::fs::create_dir_all(folder.path().join("bundle")).unwrap();
    folder.write("bundle/p.rego", policy);
    folder.write("bundle/.manifest", &json!({"revision": revision, "roots": ["p"]}).to_string());
}

fn start(folder: &Folder, port: u16) -> Opa {
    Opa::bundle(port, folder.path(), &folder.path().join("bundle"))
}

fn url(opa: &Opa) -> String {
    format!("http://127.0.0.1:{}", opa.port)
}

#[test]
fn s6_2_both_engines_give_the_same_decisions() {
    let folder = bundle(POLICY, "one");
    let opa = start(&folder, port());
    let (ours, theirs) = (Bench::embedded(&folder), Bench::opa(&url(&opa), &json!({})));
    for (case, allow, reason) in [
        ("yes", true, "owner"),
        ("no", false, "no_role"),
        ("true", true, "allowed"),
        ("false", false, "policy_denied"),
        ("unheard_of", false, "policy_undefined"),
        ("null", false, "decision_shape"),
        ("text", false, "decision_shape"),
        ("mistyped", false, "decision_shape"),
        ("strange", false, "decision_shape"),
        ("ttl", false, "decision_shape"),
        ("status", false, "decision_shape"),
        ("yes_and_conflict", false, "policy_error"),
    ] {
        for (engine, bench) in [("embedded", &ours), ("opa", &theirs)] {
            let (decision, _) = bench.ask(case).unwrap();
            let told = (decision.allow, decision.reason.as_str());
            assert_eq!(told, (allow, reason), "{case} on {engine}");
            if case == "no" {
                assert_eq!(decision.status, Some(404), "{engine}");
            }
        }
    }
    let (decision, _) = theirs.ask("pure").unwrap();
    assert!(decision.engine_decision_id().is_some(), "OPA's own id is kept: {decision:?}");
    assert_ne!(decision.engine_decision_id().map(|id| &**id), Some(&*decision.id));
    assert!(decision.revision.ends_with("=one"), "{}", decision.revision);
}

#[test]
fn s6_7_what_is_kept_and_for_how_long() {
    let folder = bundle(POLICY, "one");
    let opa = start(&folder, port());
    let engines = [
        ("embedded", Bench::embedded(&folder), [CacheState::Hit; 2]),
        ("opa", Bench::opa(&url(&opa), &json!({})), [CacheState::Miss; 2]),
        ("pure", Bench::opa(&url(&opa), &json!({"pure": true})), [CacheState::Hit; 2]),
    ];
    for (engine, bench, without_ttl) in engines {
        assert_eq!(bench.again("yes"), CacheState::Hit, "{engine}");
        assert_eq!(bench.again("never"), CacheState::Miss, "{engine}");
        assert_eq!(["pure", "unheard_of"].map(|case| bench.again(case)), without_ttl, "{engine}");
        assert_eq!(bench.again("yes_and_conflict"), CacheState::Miss, "{engine}");
        bench.clock.advance(std::time::Duration::from_secs(61));
        assert_eq!(bench.ask("yes").unwrap().1, CacheState::Miss, "{engine}: it ended");
        let uncached = Question { uncached: true, ..bench.question("yes") };
        let key = bench.decider.key(&uncached);
        let decided =
            bench.runtime.block_on(bench.decider.resolve(key, uncached, Asker::default())).unwrap();
        assert_eq!((decided.1, decided.0.expires.is_none()), (CacheState::Miss, true), "{engine}");
    }
}

#[test]
fn s6_7_without_a_revision_a_decision_lives_for_clock_ttl() {
    let folder = bundle(POLICY, "");
    let opa = start(&folder, port());
    let bench = Bench::opa(&url(&opa), &json!({"pure": true}));
    assert_eq!(bench.again("yes"), CacheState::Hit);
    bench.clock.advance(std::time::Duration::from_millis(1100));
    assert_eq!(bench.again("yes"), CacheState::Hit);
    bench.clock.advance(std::time::Duration::from_millis(1100));
    assert_eq!(bench.ask("yes").unwrap().1, CacheState::Miss);
}

#[test]
fn one_evaluation_serves_all_who_ask_at_once() {
    let folder = bundle(POLICY, "one");
    let opa = start(&folder, port());
    for bench in [Bench::embedded(&folder), Bench::opa(&url(&opa), &json!({}))] {
        // Held back, so that all of them wait for one.
        opa.process.signal("STOP");
        let question = bench.question("never");
        let asks: Vec<_> = (0..50)
            .map(|_| {
                let (decider, question) = (Arc::clone(&bench.decider), question.clone());
                bench.runtime.spawn(async move {
                    let key = decider.key(&question);
                    decider.resolve(key, question, Asker::default()).await.unwrap().0.id
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(200));
        opa.process.signal("CONT");
        let ids = asks.into_iter().map(|ask| bench.runtime.block_on(ask).unwrap());
        let mut ids: Vec<_> = ids.collect();
        ids.dedup();
        // The embedded engine may have answered the first before the last came.
        assert!(ids.len() < 50, "{} evaluations", ids.len());
    }
}
