//! What deciding costs: the key, a decision from memory, an evaluation, and handing one over.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use portcullis::clock::Clock;
use portcullis::model::{Asker, Code, Decision, Door, Extras, Fragment, Input, Pairs, Verdict};
use portcullis::policy::{
    Decider, Embedded, Evaluation, Finish, PolicyConfig, PolicyState, Question,
};
use portcullis::rego::{Bundle, Limits, Rule};
use portcullis::telemetry::Metrics;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const POLICY: &str = r#"package bench

default decision := {"allow": false, "reason": "no_role"}

decision := {"allow": true, "reason": "owner", "headers": {"x-who": input.user.id}} if {
	input.action == "read"
	some role in input.user.roles
	role in {"reader", "owner"}
	not blocked(input.resource)
}

blocked(resource) if startswith(resource, "secret")
"#;

fn main() {
    divan::main();
}

struct Plain;

impl Finish for Plain {
    fn fingerprint(&self) -> portcullis::model::Digest {
        portcullis::model::Digest::of("finish", b"plain")
    }

    fn finish(&self, verdict: Verdict, evaluation: Evaluation) -> Decision {
        Decision {
            id: evaluation.id,
            allow: verdict.allow,
            reason: Code::Allowed.into(),
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

fn bundle() -> Arc<Bundle> {
    let path = std::env::temp_dir().join(format!("bench-{}.rego", std::process::id()));
    std::fs::write(&path, POLICY).expect("a writable folder");
    Bundle::load(&[PathBuf::from(&path)], &std::env::temp_dir()).expect("a policy that compiles")
}

fn rule() -> Rule {
    bundle().rule("data.bench.decision", false).expect("the rule")
}

fn decider() -> Embedded {
    let config: PolicyConfig = serde_json::from_value(json!({
        "paths": ["p"], "entry_points": [{"name": "main", "rule": "data.bench.decision"}],
    }))
    .expect("a configuration");
    let state = PolicyState::new(&config, &Metrics::new(), Arc::default()).expect("threads");
    let finish: Arc<dyn Finish> = Arc::new(Plain);
    Embedded::new(&config, &bundle(), &finish, state).expect("a decider")
}

fn question(n: u64) -> Question {
    let context = json!({"method": "GET", "path": "/orders/1", "n": n, "host": "api.example.test"});
    Question {
        entry_point: "main".into(),
        door: Door::Check,
        input: Input {
            identity: Fragment::new(&json!({"method": "jwt", "subject": "u-alice"})),
            user: Some(Fragment::new(&json!({"id": "u-alice", "roles": ["auditor", "reader"]}))),
            token: Some(Fragment::new(&json!({"email": "alice@example.test"}))),
            resource: Some("orders".into()),
            action: Some("read".into()),
            context: context.to_string().into(),
        },
        now: Clock::system().now(),
        cap: None,
        uncached: false,
        open: false,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

#[divan::bench]
fn key(bencher: divan::Bencher<'_, '_>) {
    let (decider, question) = (decider(), question(1));
    bencher.bench_local(|| decider.key(&question));
}

#[divan::bench]
fn peek(bencher: divan::Bencher<'_, '_>) {
    let (decider, question) = (decider(), question(1));
    let key = decider.key(&question);
    let resolved = runtime().block_on(decider.resolve(key, question.clone(), Asker::default()));
    assert!(resolved.is_ok_and(|(decision, _)| decision.allow));
    bencher.bench_local(|| decider.peek(&key, &question.now, Asker::default()).is_some());
}

#[divan::bench(threads = [1, 2])]
fn evaluate(bencher: divan::Bencher<'_, '_>) {
    let rule = rule();
    let input = question(1).input.to_json(None);
    let limits = Limits { time: Duration::from_millis(50), memory: 64 << 20 };
    bencher.bench(|| rule.eval(&input, limits));
}

/// A decision that is in no cache, from the runtime's thread to a worker and back.
#[divan::bench]
fn resolve(bencher: divan::Bencher<'_, '_>) {
    let (decider, runtime) = (Arc::new(decider()), runtime());
    let mut n = 0;
    bencher
        .with_inputs(|| {
            n += 1;
            question(n)
        })
        .bench_local_values(|question| {
            let decider = Arc::clone(&decider);
            let task = async move {
                let key = decider.key(&question);
                decider.resolve(key, question, Asker::default()).await.is_ok()
            };
            runtime.block_on(runtime.spawn(task))
        });
}

/// The same evaluation by the runtime's own pool for what blocks.
#[divan::bench]
fn spawn_blocking(bencher: divan::Bencher<'_, '_>) {
    let (rule, runtime) = (rule(), runtime());
    let limits = Limits { time: Duration::from_millis(50), memory: 64 << 20 };
    let input = question(1).input.to_json(None);
    bencher.bench_local(|| {
        let (rule, input) = (rule.clone(), input.clone());
        let task =
            async move { tokio::task::spawn_blocking(move || rule.eval(&input, limits)).await };
        runtime.block_on(runtime.spawn(task))
    });
}

/// The decision of the water-data policies with its header and constraints, on cases of
/// `tests/data/cwms_decisions.json`; the target is at most 100 µs of one core.
#[divan::bench(args = [
    "anon offices",
    "viewer levels own",
    "water_manager read own",
    "data_manager regional persona",
    "data_manager delete approved by other",
    "dam_operator create in shift",
    "dam_operator update w/ created_ns recent",
    "processor read automated",
    "coop read",
    "roles by office: operator there",
    "viewer levels other office",
])]
fn cwms(bencher: divan::Bencher<'_, '_>, name: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let bundle = Bundle::load(&["policies/cwms".into()], root).expect("policies");
    let rule = bundle.rule("data.cwms.authz.decision", true).expect("a rule");
    let text = std::fs::read_to_string(root.join("tests/data/cwms_decisions.json"));
    let cases: Vec<serde_json::Value> =
        serde_json::from_str(&text.expect("cases")).expect("an array");
    let case = cases.iter().find(|case| case.get("name").is_some_and(|n| n == name));
    let mut input = case.and_then(|case| case.get("input")).expect("the case").clone();
    let now = Clock::system().now().unix_nanos;
    let context = input.get_mut("context").and_then(serde_json::Value::as_object_mut);
    let context = context.expect("a context");
    for value in context.values_mut() {
        let offset = value.as_str().and_then(|text| text.strip_prefix("$now")?.strip_suffix('s'));
        if let Some(secs) = offset.and_then(|secs| secs.parse::<i64>().ok()) {
            *value = (now + secs * 1_000_000_000).into();
        }
    }
    context.insert("time_ns".to_owned(), now.into());
    let input = input.to_string().replace("\"$now+1000s\"", &(now + 1_000_000_000_000).to_string());
    let limits = Limits { time: Duration::from_millis(50), memory: 64 << 20 };
    bencher.bench_local(|| rule.eval(&input, limits));
}
