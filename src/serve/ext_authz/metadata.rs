//! `dynamic_metadata`: what access logs and later filters may know of a Check.

use std::collections::HashMap;

use envoy_types::pb::google::protobuf::{ListValue, Struct, Value as WireValue, value::Kind};
use serde_json::{Map, Value};

use super::super::gate::Facts;
use crate::model::{CacheState, Decision, Reason};

/// The policy's metadata and ours; a policy cannot name one of our members.
pub(super) fn of(reason: &Reason, decision: Option<&Decision>, facts: &Facts) -> Struct {
    let record = &facts.record;
    let theirs = decision.map(|decision| &decision.metadata);
    let mut fields = HashMap::with_capacity(12 + theirs.map_or(0, Map::len));
    fields.extend(theirs.into_iter().flatten().map(|(name, value)| (name.clone(), wire(value))));
    let decision_id = decision.map(|decision| &*decision.id).or(record.decision_id.as_deref());
    let revision = decision.map(|decision| &*decision.revision).or(record.revision.as_deref());
    let engine_id = decision.map_or(&record.engine_decision_id, |d| &d.engine_decision_id);
    let subject = facts.subject_hash.map(|hash| hash.to_string());
    let cache = |state: CacheState| Some(state.as_str()).filter(|_| state != CacheState::None);
    for (name, value) in [
        ("check_id", Some(&*record.check_id)),
        ("decision_id", decision_id),
        ("engine_decision_id", engine_id.as_deref()),
        ("reason", Some(reason.as_str())),
        ("route", record.route.as_deref()),
        ("subject", subject.as_deref()),
        ("policy_revision", revision),
        ("token_cache", cache(record.token_cache)),
        ("context_cache", cache(record.context_cache)),
        ("decision_cache", cache(record.decision_cache)),
        ("mark", record.mark()),
    ] {
        match value {
            Some(value) => fields.insert(name.to_owned(), text(value)),
            None => fields.remove(name),
        };
    }
    Struct { fields }
}

fn text(text: &str) -> WireValue {
    WireValue { kind: Some(Kind::StringValue(text.to_owned())) }
}

/// The policy's result is bounded in depth before it comes here.
fn wire(value: &Value) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(list) => {
            Kind::ListValue(ListValue { values: list.iter().map(wire).collect() })
        }
        Value::Object(fields) => Kind::StructValue(object(fields)),
    };
    WireValue { kind: Some(kind) }
}

fn object(fields: &Map<String, Value>) -> Struct {
    Struct { fields: fields.iter().map(|(name, value)| (name.clone(), wire(value))).collect() }
}
