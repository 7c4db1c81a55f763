//! A finished Check as people read it: text, or JSON for programs.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::app::Explained;
use crate::model::{Decision, Outcome, Pair, StageTime};

/// The whole answer as JSON. `input` is the document that the policy saw.
pub(super) fn to_json(explained: &Explained) -> Value {
    let record = &explained.record;
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            out.insert(name.to_owned(), value);
        }
    };
    let (outcome, reason, decision) = match &explained.outcome {
        Outcome::Allow(allow) => {
            put("set", headers(allow.decision.as_ref(), |decision| &decision.headers));
            put("remove", json!(allow.removals().collect::<Vec<_>>()));
            put("remove_query", json!(allow.strip.query));
            ("allow", &allow.reason, allow.decision.as_ref())
        }
        Outcome::Deny(deny) => {
            put("status", json!(deny.status));
            put("description", json!(deny.description));
            put(
                "challenge",
                json!(deny.challenge.as_ref().map(|c| {
                    json!({"realm": &*c.realm, "error": c.error, "scope": c.scope.as_deref()})
                })),
            );
            ("deny", &deny.reason, deny.decision.as_ref())
        }
        Outcome::Unavailable(unavailable) => {
            put("retry_after", json!(unavailable.retry_after));
            ("unavailable", &unavailable.reason, None)
        }
    };
    put("outcome", json!(outcome));
    put("reason", json!(reason.as_str()));
    put("response_headers", headers(decision, |decision| decision.response_headers()));
    let constraints = decision.and_then(|decision| decision.constraints()).map(|text| &**text);
    put(
        "constraints",
        // One that nests too deep to be read back is shown as text, never as none.
        constraints
            .map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
    );
    put("decision_id", json!(record.decision_id()));
    put("policy_revision", json!(record.revision()));
    put("detail", if record.detail.is_empty() { Value::Null } else { json!(record.detail) });
    put("route", json!(record.route.as_deref()));
    put("issuer", json!(record.issuer()));
    put("subject", json!(record.subject()));
    put(
        "caches",
        json!({
            "token": record.token_cache.as_str(),
            "user_context": record.context_cache.as_str(),
            "decision": record.decision_cache.as_str(),
        }),
    );
    let stage = |time: &StageTime| json!({"stage": time.stage, "micros": u64::try_from(time.took.as_micros()).unwrap_or(u64::MAX)});
    put("stages", record.stages.iter().map(stage).collect());
    let input = explained.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
    put("input", input.unwrap_or_default());
    Value::Object(out)
}

fn headers(decision: Option<&Arc<Decision>>, which: impl Fn(&Decision) -> &[Pair]) -> Value {
    let Some(decision) = decision else { return Value::Null };
    let pair = |(name, value): &Pair| json!({"name": &**name, "value": value});
    which(decision).iter().map(pair).collect()
}

/// The same, for reading: one fact a line, the input indented below.
pub(super) fn to_text(explained: &Explained) -> String {
    let mut json = to_json(explained);
    let mut take = |name: &str| json.as_object_mut().and_then(|object| object.remove(name));
    let mut out = String::new();
    let (outcome, reason) = (take("outcome"), take("reason"));
    let word =
        |value: &Option<Value>| value.as_ref().and_then(Value::as_str).unwrap_or("").to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}: {}", word(&outcome), word(&reason));
    let input = take("input");
    for name in [
        "status",
        "description",
        "detail",
        "challenge",
        "retry_after",
        "route",
        "issuer",
        "subject",
        "decision_id",
        "policy_revision",
        "constraints",
        "caches",
    ] {
        if let Some(value) = take(name) {
            let _ = writeln!(out, "  {name}: {}", plain(&value));
        }
    }
    for name in ["set", "response_headers"] {
        for header in take(name).as_ref().and_then(Value::as_array).into_iter().flatten() {
            let part = |key: &str| header.get(key).and_then(Value::as_str).unwrap_or("");
            let _ = writeln!(out, "  {name}: {}: {}", part("name"), part("value"));
        }
    }
    for name in ["remove", "remove_query"] {
        let names = take(name);
        let names = names.as_ref().and_then(Value::as_array).into_iter().flatten();
        let names: Vec<_> = names.map(plain).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "  {name}: {}", names.join(", "));
        }
    }
    for stage in take("stages").as_ref().and_then(Value::as_array).into_iter().flatten() {
        let (name, micros) = (stage.get("stage").map(plain), stage.get("micros").map(plain));
        let _ = writeln!(out, "  {}: {} µs", name.unwrap_or_default(), micros.unwrap_or_default());
    }
    if let Some(input) = input {
        let _ = writeln!(out, "input:\n{input:#}");
    }
    out
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
