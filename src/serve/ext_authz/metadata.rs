//! `dynamic_metadata`: what access logs and later filters may know of a Check.

use serde_json::{Map, Value};

use super::super::config::{Member, Members};
use super::super::gate::Facts;
use super::write::Writer;
use crate::model::{CacheState, Decision, Reason};

/// What we can say of a Check.
pub(super) const NAMES: [(&str, Member); 10] = [
    ("check_id", Member::CheckId),
    ("decision_id", Member::DecisionId),
    ("engine_decision_id", Member::EngineDecisionId),
    ("reason", Member::Reason),
    ("route", Member::Route),
    ("subject", Member::Subject),
    ("policy_revision", Member::PolicyRevision),
    ("token_cache", Member::TokenCache),
    ("context_cache", Member::ContextCache),
    ("decision_cache", Member::DecisionCache),
];

/// Said of every answer on stale or open ground.
const MARK: &str = "mark";
/// All of it in one member: Envoy's work goes by their number.
const SUMMARY: &str = "summary";
/// Most bytes of a value that the summary shows.
const LONGEST: usize = 128;

fn is_ours(name: &str) -> bool {
    name == MARK || name == SUMMARY || NAMES.iter().any(|(ours, _)| *ours == name)
}

/// Writes a `google.protobuf.Struct`: the policy's metadata and of ours the `members`, as far as
/// they are known. A policy cannot name one of ours, told or not.
pub(super) fn write(
    out: &mut Writer,
    reason: &Reason,
    decision: Option<&Decision>,
    facts: &Facts,
    members: Members,
) {
    let record = &facts.record;
    let theirs = decision.and_then(Decision::metadata);
    for (name, value) in theirs.into_iter().flatten() {
        if !is_ours(name) {
            member(out, name, |out| wire(out, value));
        }
    }
    let decision = decision.or(record.decision.as_deref());
    let engine_id = decision.and_then(Decision::engine_decision_id);
    let mut hex = [0; 32];
    let subject = facts.subject_hash.as_ref().map(|hash| hash.hex(&mut hex));
    let cache = |state: CacheState| Some(state.as_str()).filter(|_| state != CacheState::None);
    let values = [
        Some(&*record.check_id),
        decision.map(|decision| &*decision.id),
        engine_id.map(|id| &**id),
        Some(reason.as_str()),
        record.route.as_deref(),
        subject,
        decision.map(|decision| &*decision.revision),
        cache(record.token_cache),
        cache(record.context_cache),
        cache(record.decision_cache),
    ];
    let known = || NAMES.iter().zip(values).filter_map(|(of, value)| Some((of, value?)));
    if members.has(Member::Summary) {
        member(out, SUMMARY, |out| {
            out.message(3, |out| {
                for (place, ((name, _), value)) in known().enumerate() {
                    if place > 0 {
                        out.bytes(*b" ");
                    }
                    pair(out, name, value);
                }
            });
        });
    }
    for ((name, which), value) in known() {
        if members.has(*which) {
            member(out, name, |out| out.text(3, value));
        }
    }
    if let Some(mark) = record.mark() {
        member(out, MARK, |out| out.text(3, mark));
    }
}

/// `name=value` of the summary. What could be taken for another pair, or would have to be escaped
/// in a log, becomes `_`.
fn pair(out: &mut Writer, name: &str, value: &str) {
    let plain =
        |byte: u8| if byte.is_ascii_graphic() && !b"\"\\".contains(&byte) { byte } else { b'_' };
    out.bytes(name.bytes());
    out.bytes(*b"=");
    out.bytes(value.bytes().take(LONGEST).map(plain));
}

/// An entry of `Struct.fields`, with a `Value` that `content` writes.
fn member(out: &mut Writer, name: &str, content: impl FnOnce(&mut Writer)) {
    out.message(1, |entry| {
        entry.text(1, name);
        entry.message(2, content);
    });
}

/// Writes what is in a `google.protobuf.Value`. The policy's result is bounded in depth before it
/// comes here.
fn wire(out: &mut Writer, value: &Value) {
    match value {
        Value::Null => out.number_of_one(1, 0),
        Value::Number(number) => out.double_of_one(2, number.as_f64().unwrap_or_default()),
        Value::String(text) => out.text(3, text),
        Value::Bool(flag) => out.number_of_one(4, u64::from(*flag)),
        Value::Object(fields) => out.message(5, |out| object(out, fields)),
        Value::Array(list) => out.message(6, |out| {
            for value in list {
                out.message(1, |out| wire(out, value));
            }
        }),
    }
}

fn object(out: &mut Writer, fields: &Map<String, Value>) {
    for (name, value) in fields {
        member(out, name, |out| wire(out, value));
    }
}
