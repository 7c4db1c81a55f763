//! The water-data policies decide alike on the embedded engine and on a real OPA server: the
//! committed decisions, and at least ten thousand generated inputs.
//!
//! `PARITY_SEED` makes the inputs of a reported run again, `PARITY_INPUTS` asks for more of them,
//! `PARITY_POLICIES` has OPA evaluate the policies of another folder: those before a change that is
//! to change no answer.

pub(crate) mod generate;
mod profile;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis::clock::Clock;
use portcullis::rego::{Bundle, Limits};
use serde_json::{Value, json};

use self::generate::Generator;
use crate::golden::same;
use crate::harness::{Folder, Opa, port, root};

const LIMITS: Limits = Limits { time: Duration::from_secs(10), memory: 64 << 20 };
const DECISION: &str = "data.cwms.authz.decision";
const PROFILE: &str = "data.cwms.profile.user";

/// Answers for many inputs in one request; what is undefined is left out.
const BATCH: &str = "package parity\n
decision[i] := answer if { some i, asked in input.batch; answer := data.cwms.authz.decision with input as asked }
profile[i] := answer if { some i, asked in input.batch; answer := data.cwms.profile.user with input as asked }
";

/// Reasons of allows, each the name of a persona's rule or of a role that may do everything.
const GRANTS: [&str; 10] = [
    "automated_collector",
    "automated_processor",
    "dam_operator",
    "data_manager",
    "external_cooperator",
    "hec_employee",
    "public",
    "system_admin",
    "viewer_users",
    "water_manager",
];

/// Reasons of denials, as `policies/README.md` lists them.
const REFUSALS: [&str; 21] = [
    "api_key_required",
    "approval_missing",
    "approver_is_requester",
    "approver_missing",
    "calculation_metadata_missing",
    "classification_missing",
    "classification_not_permitted",
    "data_source_not_permitted",
    "embargoed",
    "not_permitted",
    "office_missing",
    "office_not_yours",
    "parameter_not_permitted",
    "partnership_over",
    "partnership_unknown",
    "record_age_unknown",
    "record_too_old",
    "shift_over",
    "shift_unknown",
    "sign_in_required",
    "user_without_id",
];

/// An OPA server with `policies` and the rule for batches.
fn opa(folder: &Folder, policies: &Path) -> Opa {
    let batch = folder.write("parity.rego", BATCH);
    Opa::start(port(), folder.path(), &[policies, &batch])
}

/// What OPA evaluates.
fn theirs() -> PathBuf {
    std::env::var_os("PARITY_POLICIES").map_or_else(|| root().join("policies/cwms"), PathBuf::from)
}

/// What the embedded engine says; `None` where it is undefined.
fn ours(path: &str, inputs: &[Value]) -> Vec<Option<Value>> {
    let bundle = Bundle::load(&["policies/cwms".into()], root()).unwrap();
    let rule = bundle.rule(path, true).unwrap();
    let answer = |input: &Value| {
        let answer = rule.eval(&input.to_string(), LIMITS);
        answer.unwrap_or_else(|error| Some(json!({"error": error.to_string()})))
    };
    let (left, right) = inputs.split_at(inputs.len() / 2);
    std::thread::scope(|scope| {
        let left = scope.spawn(|| left.iter().map(answer).collect::<Vec<_>>());
        let right: Vec<_> = right.iter().map(answer).collect();
        left.join().unwrap().into_iter().chain(right).collect()
    })
}

/// What the server says, asked on one connection that is kept.
fn opas(opa: &Opa, rule: &str, inputs: &[Value]) -> Vec<Option<Value>> {
    let url = format!("http://127.0.0.1:{}/v1/data/parity/{rule}", opa.port);
    let run = async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut answers = Vec::with_capacity(inputs.len());
        for batch in inputs.chunks(250) {
            let body = json!({"input": {"batch": batch}}).to_string();
            let answer = client.post(&url).body(body).send().await.unwrap();
            let status = answer.status();
            let text = answer.text().await.unwrap();
            assert_eq!(status, 200, "{text}");
            let mut said: Value = serde_json::from_str(&text).unwrap();
            let said = said["result"].as_object_mut().unwrap();
            answers.extend((0..batch.len()).map(|index| said.remove(&index.to_string())));
        }
        answers
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)
}

/// What the two sides say differently, with the input.
fn differences(inputs: &[Value], ours: &[Option<Value>], opas: &[Option<Value>]) -> Vec<String> {
    assert_eq!((ours.len(), opas.len()), (inputs.len(), inputs.len()));
    let equal = |a: &Option<Value>, b: &Option<Value>| match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    let show = |value: &Option<Value>| value.as_ref().map_or("undefined".into(), Value::to_string);
    inputs
        .iter()
        .zip(ours.iter().zip(opas))
        .filter(|(_, (ours, opas))| !equal(ours, opas))
        .map(|(i, (ours, opas))| format!("{i}\n  ours {}\n  opa  {}", show(ours), show(opas)))
        .collect()
}

fn none(differences: &[String]) {
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differ, such as\n{shown}", differences.len());
}

/// `$now-3600s` as nanoseconds of that time, anywhere in `value`.
fn at(value: &Value, now_ns: i64) -> Value {
    match value {
        Value::String(text) => {
            let offset = text.strip_prefix("$now").and_then(|rest| rest.strip_suffix('s'));
            offset.map_or_else(
                || value.clone(),
                |secs| json!(now_ns + secs.parse::<i64>().unwrap() * 1_000_000_000),
            )
        }
        Value::Array(items) => items.iter().map(|item| at(item, now_ns)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), at(value, now_ns))).collect()
        }
        other => other.clone(),
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The seed of this run, told so that it can be run again.
fn seed() -> u64 {
    let seed = number("PARITY_SEED", Clock::system().now().unix_nanos.unsigned_abs());
    println!("PARITY_SEED={seed}");
    seed
}

#[test]
fn r01_the_committed_decisions_hold_on_both_engines() {
    let text = std::fs::read_to_string(root().join("tests/data/cwms_decisions.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let now = Clock::system().now();
    let input = |case: &Value| {
        let mut input = at(&case["input"], now.unix_nanos);
        input["context"]["time"] = now.rfc3339().into();
        input["context"]["time_ns"] = now.unix_nanos.into();
        input
    };
    let inputs: Vec<Value> = cases.iter().map(input).collect();
    let folder = Folder::new();
    let opa = opa(&folder, &theirs());
    let (ours, opas) = (ours(DECISION, &inputs), opas(&opa, "decision", &inputs));
    none(&differences(&inputs, &ours, &opas));
    for (case, answer) in cases.iter().zip(&ours) {
        let answer = answer.as_ref().unwrap_or_else(|| panic!("undefined: {case}"));
        assert_eq!(answer["allow"], case["ours_allows"], "{case}: {answer}");
    }
}

#[test]
fn s3_5_every_reason_of_the_policies_is_known_at_load() {
    let bundle = Bundle::load(&["policies/cwms".into()], root()).unwrap();
    let found = bundle.reasons([DECISION]);
    let missing: Vec<&str> = GRANTS
        .into_iter()
        .chain(REFUSALS)
        .filter(|reason| !found.iter().any(|text| **text == **reason))
        .collect();
    assert!(missing.is_empty(), "{missing:?} not in {found:?}");
    assert!(found.len() < 200, "{found:?}");
}

#[test]
fn s10_2_generated_inputs_are_decided_alike_and_fire_every_rule() {
    let mut generator = Generator::new(seed());
    let count = usize::try_from(number("PARITY_INPUTS", 10_000)).unwrap();
    let inputs: Vec<Value> = (0..count).map(|_| generator.question()).collect();
    let folder = Folder::new();
    let opa = opa(&folder, &theirs());
    let (ours, opas) = (ours(DECISION, &inputs), opas(&opa, "decision", &inputs));
    none(&differences(&inputs, &ours, &opas));

    let mut reasons: BTreeMap<(bool, String), usize> = BTreeMap::new();
    let mut shorter = 0;
    for answer in ours.iter().flatten() {
        let reason = answer["reason"].as_str().unwrap_or_default().to_owned();
        *reasons.entry((answer["allow"] == true, reason)).or_default() += 1;
        shorter += usize::from(answer["ttl"].as_u64().is_some_and(|ttl| ttl < 300));
    }
    println!("{reasons:#?}, {shorter} with a shorter life");
    let fired = |allow, reason: &str| reasons.contains_key(&(allow, reason.to_owned()));
    let silent: Vec<&str> = GRANTS.into_iter().filter(|reason| !fired(true, reason)).collect();
    assert!(silent.is_empty(), "these rules never granted: {silent:?}");
    let silent: Vec<&str> = REFUSALS.into_iter().filter(|reason| !fired(false, reason)).collect();
    assert!(silent.is_empty(), "these reasons were never given: {silent:?}");
    let allows: usize = reasons.iter().filter(|((allow, _), _)| *allow).map(|(_, n)| n).sum();
    assert!(allows * 5 >= count, "{allows} of {count} are allows");
    assert!(shorter * 100 >= count, "{shorter} of {count} live shorter than the maximum");
}

#[test]
fn s10_2_generated_profiles_are_mapped_alike() {
    let mut generator = Generator::new(seed());
    let inputs: Vec<Value> = (0..2_000).map(|_| generator.profile()).collect();
    let folder = Folder::new();
    let opa = opa(&folder, &theirs());
    let (ours, opas) = (ours(PROFILE, &inputs), opas(&opa, "profile", &inputs));
    none(&differences(&inputs, &ours, &opas));
    let mapped = ours.iter().flatten().count();
    assert!((400..2_000).contains(&mapped), "{mapped} of 2000 are usable");
}

#[test]
fn s10_3_a_planted_difference_is_found() {
    let folder = Folder::new();
    let planted = folder.path().join("cwms");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&root().join("policies/cwms"), &planted])
        .status();
    assert!(copied.unwrap().success());
    let file = planted.join("request.rego");
    let text = std::fs::read_to_string(&file).unwrap();
    // One second of one kind of claim's life.
    let from = "good := {\"ok\": true, \"ttl\": 300}";
    std::fs::write(
        &file,
        crate::harness::files::replace(&text, from, "good := {\"ok\": true, \"ttl\": 299}"),
    )
    .unwrap();
    let mut generator = Generator::new(seed());
    let inputs: Vec<Value> = (0..200).map(|_| generator.question()).collect();
    let opa = opa(&folder, &planted);
    let found = differences(&inputs, &ours(DECISION, &inputs), &opas(&opa, "decision", &inputs));
    assert!(!found.is_empty() && found.len() < inputs.len(), "{} differ", found.len());
}
