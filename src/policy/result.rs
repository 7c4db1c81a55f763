//! A policy's answer, checked for its shape.
//!
//! The answer is `true`, `false`, or an object of known members. Everything else is refused
//! whole: a mistyped `allowed` must not leave the rest of the object in force.

use serde_json::{Map, Value};

use crate::model::{HeaderValue, Stamp, Verdict};

/// What of the answer is not of the agreed shape; static, so that it never quotes the policy.
pub(super) type Misshapen = &'static str;

/// Reads a policy's answer.
pub(super) fn verdict(answer: Value) -> Result<Verdict, Misshapen> {
    match answer {
        Value::Bool(allow) => Ok(Verdict { allow, ..Verdict::default() }),
        Value::Object(members) => object(members),
        _ => Err("the answer is neither a boolean nor an object"),
    }
}

fn object(members: Map<String, Value>) -> Result<Verdict, Misshapen> {
    let mut verdict = Verdict::default();
    let mut allow = None;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("allow", Value::Bool(value)) => allow = Some(value),
            ("allow", _) => return Err("`allow` is no boolean"),
            ("reason", Value::String(text)) => verdict.reason = Some(text),
            ("reason", _) => return Err("`reason` is no string"),
            ("status", value) => verdict.status = Some(status(&value)?),
            ("headers", value) => verdict.headers = headers(value)?,
            ("response_headers", value) => verdict.response_headers = headers(value)?,
            ("metadata", Value::Object(members)) => verdict.metadata = members,
            ("metadata", _) => return Err("`metadata` is no object"),
            ("constraints", value @ Value::Object(_)) => verdict.constraints = Some(value),
            ("constraints", _) => return Err("`constraints` is no object"),
            ("ttl", value) => verdict.ttl = Some(ttl(&value)?),
            _ => return Err("the object has an unknown member"),
        }
    }
    verdict.allow = allow.ok_or("the object has no `allow`")?;
    if verdict.allow && verdict.status.is_some() {
        // An answer that says both yes and an error is none.
        return Err("an allow has a `status`");
    }
    Ok(verdict)
}

fn status(value: &Value) -> Result<u16, Misshapen> {
    let status = value.as_u64().and_then(|status| u16::try_from(status).ok());
    status.filter(|status| (400..=599).contains(status)).ok_or("`status` is not 400 to 599")
}

fn ttl(value: &Value) -> Result<f64, Misshapen> {
    let ttl = value.as_f64().filter(|ttl| ttl.is_finite() && *ttl >= 0.0);
    ttl.ok_or("`ttl` is no number of seconds from 0 on")
}

fn headers(value: Value) -> Result<Vec<(String, HeaderValue)>, Misshapen> {
    let Value::Object(members) = value else { return Err("headers are no object") };
    members
        .into_iter()
        .map(|(name, value)| match header_value(value) {
            Ok(value) if is_name(&name) => Ok((name, value)),
            Ok(_) => Err("a header's name is no lower-case token"),
            Err(wrong) => Err(wrong),
        })
        .collect()
}

/// A token of RFC 9110, section 5.6.2, in lower case; so no pseudo-header either.
fn is_name(name: &str) -> bool {
    let token =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(token)
}

fn header_value(value: Value) -> Result<HeaderValue, Misshapen> {
    match value {
        Value::String(text) => Ok(HeaderValue::Text(text)),
        Value::Array(items) => {
            let text = |item| match item {
                Value::String(text) => Ok(text),
                _ => Err("a header's list has an element that is no string"),
            };
            items.into_iter().map(text).collect::<Result<_, _>>().map(HeaderValue::List)
        }
        Value::Object(members) => document(members),
        _ => Err("a header's value is neither a string, a list nor a document"),
    }
}

fn document(mut members: Map<String, Value>) -> Result<HeaderValue, Misshapen> {
    let document = members.remove("document").ok_or("a header's object has no `document`")?;
    let stamps = match members.remove("stamp") {
        None => Map::new(),
        Some(Value::Object(stamps)) => stamps,
        Some(_) => return Err("`stamp` is no object"),
    };
    if !members.is_empty() {
        return Err("a header's object has an unknown member");
    }
    let stamps = stamps.into_iter().map(|(pointer, what)| {
        let stamp = match what.as_str() {
            Some("decision_id") => Stamp::DecisionId,
            Some("decided_at") => Stamp::DecidedAt,
            _ => return Err("a stamp is neither `decision_id` nor `decided_at`"),
        };
        // The member itself need not be there yet; the object that is to hold it must.
        let holder = pointer.rsplit_once('/').and_then(|(holder, _)| document.pointer(holder));
        match holder {
            Some(Value::Object(_)) => Ok((pointer, stamp)),
            _ => Err("a stamp's pointer names no place in its document"),
        }
    });
    let stamps = stamps.collect::<Result<_, _>>()?;
    Ok(HeaderValue::Document { document, stamps })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s6_2_booleans_and_whole_objects_are_read() {
        assert!(verdict(json!(true)).unwrap().allow);
        assert!(!verdict(json!(false)).unwrap().allow);
        let read = verdict(json!({
            "allow": true, "reason": "owner", "ttl": 2.5, "metadata": {"a": 1},
            "constraints": {"allowed": []}, "headers": {"x-a": "1", "x-b": ["1", "2"]},
            "response_headers": {"x-c": "3"},
        }))
        .unwrap();
        assert!(read.allow);
        assert_eq!(read.reason.as_deref(), Some("owner"));
        assert_eq!(read.ttl, Some(2.5));
        assert_eq!(read.constraints, Some(json!({"allowed": []})));
        assert_eq!(read.headers[1].1, HeaderValue::List(vec!["1".into(), "2".into()]));
        assert_eq!(read.response_headers.len(), 1);
        let denied = verdict(json!({"allow": false, "status": 404})).unwrap();
        assert_eq!((denied.allow, denied.status), (false, Some(404)));
    }

    #[test]
    fn s6_3_a_document_names_what_is_stamped_and_where() {
        let value = json!({"document": {"a": {}, "id": null}, "stamp": {"/id": "decision_id", "/a/at": "decided_at"}});
        let read = verdict(json!({"allow": true, "headers": {"x-a": value}})).unwrap();
        let HeaderValue::Document { stamps, .. } = &read.headers[0].1 else { panic!("{read:?}") };
        let expected = [("/a/at".into(), Stamp::DecidedAt), ("/id".into(), Stamp::DecisionId)];
        assert_eq!(stamps.as_slice(), expected);
    }

    #[test]
    fn r03_an_answer_of_another_shape_is_refused_whole() {
        for answer in [
            json!({"allowed": true, "headers": {"x-a": "1"}}),
            json!({"allowed": true}),
            json!({"allow": true, "allowed": true}),
            json!({"allow": "yes"}),
            json!({"allow": 1}),
            json!({"allow": null}),
            json!({}),
            json!({"allow": true, "headers": {"x-a": true}}),
            json!({"allow": true, "headers": {"x-a": 1}}),
            json!({"allow": true, "headers": {"x-a": null}}),
            json!({"allow": true, "headers": {"x-a": ["1", 2]}}),
            json!({"allow": true, "headers": ["x"]}),
            json!({"allow": true, "headers": null}),
            json!({"allow": false, "status": 200}),
            json!({"allow": false, "status": 99}),
            json!({"allow": false, "status": 600}),
            json!({"allow": false, "status": "403"}),
            json!({"allow": false, "status": 403.5}),
            json!({"allow": true, "status": 403}),
            json!({"allow": true, "headers": {":path": "/"}}),
            json!({"allow": true, "headers": {"X-A": "1"}}),
            json!({"allow": true, "headers": {"": "1"}}),
            json!({"allow": true, "headers": {"x a": "1"}}),
            json!({"allow": true, "headers": {"x-é": "1"}}),
            json!({"allow": true, "response_headers": {"x\n": "1"}}),
            json!({"allow": true, "reason": 1}),
            json!({"allow": true, "metadata": []}),
            json!({"allow": true, "constraints": "all"}),
            json!({"allow": true, "ttl": -1}),
            json!({"allow": true, "ttl": "60"}),
            json!({"allow": true, "ttl": null}),
            json!({"allow": true, "headers": {"x-a": {"stamp": {}}}}),
            json!({"allow": true, "headers": {"x-a": {"document": {}, "stamps": {}}}}),
            json!({"allow": true, "headers": {"x-a": {"document": {}, "stamp": {"/a": "time"}}}}),
            json!({"allow": true, "headers": {"x-a": {"document": {}, "stamp": {"a": "decided_at"}}}}),
            json!({"allow": true, "headers": {"x-a": {"document": {}, "stamp": {"/a/b": "decided_at"}}}}),
            json!("true"),
            json!(1),
            json!([]),
            json!([true]),
            json!(null),
        ] {
            assert!(verdict(answer.clone()).is_err(), "{answer}");
        }
    }
}
