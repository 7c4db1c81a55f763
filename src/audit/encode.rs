//! Event → one line of JSON.
//!
//! The line is ASCII-safe where it matters: controls, DEL, C1 and the Unicode line and paragraph
//! separators are escaped, so that no reader takes one record for two.

use std::fmt::Write as _;

use super::Event;
use crate::model::CacheState;

/// Version of the record's form.
const SCHEMA: u32 = 1;
/// Longest text that comes from the token or the route, in bytes.
const MAX_TEXT: usize = 512;
/// Longest constraints document, in bytes; a longer one is left out and its size told.
const MAX_CONSTRAINTS: usize = 8 * 1024;

/// Appends the event's line, newline included.
pub(super) fn push_line(out: &mut String, event: &Event) {
    let record = &event.record;
    let _ = write!(out, "{{\"schema\":{SCHEMA},\"time\":\"{}\"", event.at.rfc3339());
    push_text(out, "check_id", &record.check_id);
    push_text(out, "door", record.door.as_str());
    push_optional(out, "request_id", record.request_id.as_deref());
    push_optional(out, "decision_id", record.decision_id());
    push_text(out, "outcome", event.kind.as_str());
    push_text(out, "reason", event.reason.as_str());
    push_optional(out, "detail", Some(record.detail).filter(|text| !text.is_empty()));
    let _ = write!(out, ",\"status\":{}", event.status);
    push_optional(out, "route", record.route.as_deref());
    push_optional(out, "issuer", record.issuer());
    if let Some(hash) = event.subject_hash {
        let _ = write!(out, ",\"subject_hash\":\"{hash}\"");
    }
    push_optional(out, "client_id", record.client_id());
    push_optional(out, "caller", record.caller.as_deref());
    if let Some(hash) = event.caller_hash {
        let _ = write!(out, ",\"caller_hash\":\"{hash}\"");
    }
    push_optional(out, "resource", record.resource.as_deref());
    push_optional(out, "action", record.action.as_deref());
    for (name, value) in [
        ("method", &record.method),
        ("host", &record.host),
        ("path", &record.path),
        ("source", &record.source),
    ] {
        push_optional(out, name, Some(&**value).filter(|text| !text.is_empty()));
    }
    if event.altered {
        out.push_str(",\"altered\":true");
    }
    push_caches(out, event);
    push_optional(out, "engine_decision_id", record.engine_decision_id());
    push_optional(out, "policy_revision", record.revision());
    push_constraints(out, record.constraints());
    let _ = write!(out, ",\"duration_us\":{}", event.took.as_micros());
    out.push_str("}\n");
}

/// The line that follows a line which a failed write cut.
pub(super) fn push_broken_line_marker(out: &mut String) {
    let _ = writeln!(out, "{{\"schema\":{SCHEMA},\"marker\":\"previous_line_is_cut\"}}");
}

fn push_caches(out: &mut String, event: &Event) {
    let states = event.record.grounds();
    let mut separator = ",\"caches\":{";
    for (name, state) in states.into_iter().filter(|(_, state)| *state != CacheState::None) {
        let _ = write!(out, "{separator}\"{name}\":\"{}\"", state.as_str());
        separator = ",";
    }
    if separator == "," {
        out.push('}');
    }
}

fn push_constraints(out: &mut String, constraints: Option<&str>) {
    let Some(text) = constraints else { return };
    if text.len() > MAX_CONSTRAINTS {
        let _ = write!(out, ",\"constraints_omitted_bytes\":{}", text.len());
        return;
    }
    out.push_str(",\"constraints\":");
    out.push_str(text);
}

fn push_optional(out: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        push_text(out, name, value);
    }
}

/// Adds a member whose value is cut to a bound, visibly.
fn push_text(out: &mut String, name: &str, value: &str) {
    let limit = if name == "path" { usize::MAX } else { MAX_TEXT };
    let kept = if value.len() > limit {
        value.get(..value.floor_char_boundary(limit)).unwrap_or_default()
    } else {
        value
    };
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":\"");
    if kept.bytes().fold(true, |all, b| all & matches!(b, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~'))
    {
        out.push_str(kept);
    } else {
        push_escaped(out, kept);
    }
    out.push('"');
    if kept.len() < value.len() {
        let _ = write!(out, ",\"{name}_cut_bytes\":{}", value.len() - kept.len());
    }
}

fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => push_char(out, c),
        }
    }
}

fn push_char(out: &mut String, c: char) {
    if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') {
        let _ = write!(out, "\\u{:04x}", u32::from(c));
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::audit::{Kind, SubjectHash};
    use crate::clock::Clock;
    use crate::model::{Code, Decision, DecisionId, Evaluation, Extras, Record, VerifiedToken};

    fn event(record: Record) -> Event {
        Event {
            at: Clock::manual(1_700_000_000).now(),
            took: Duration::from_micros(42),
            kind: Kind::Deny,
            reason: Code::NoRoute.into(),
            status: 403,
            record,
            subject_hash: Some(SubjectHash::new(&[7; 32], "https://idp.example.test", "u-1")),
            caller_hash: None,
            altered: false,
        }
    }

    fn decision(constraints: Option<String>) -> Arc<Decision> {
        let (revision, decided_at) = ("r".into(), Clock::manual(0).now());
        let evaluation = Evaluation { id: "d-1".into(), revision, decided_at, expires: None };
        let constraints = constraints.map(Into::into);
        let extras = Extras { constraints, ..Extras::default() }.kept();
        Decision { extras, ..Decision::open(evaluation) }.into()
    }

    fn parse(event: &Event) -> Value {
        let mut line = String::new();
        push_line(&mut line, event);
        assert_eq!(line.lines().count(), 1, "{line}");
        let safe = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
        assert!(line.trim_end_matches('\n').chars().all(safe), "{line}");
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn a01_hostile_text_stays_within_its_own_line_and_value() {
        let hostile = [
            "x\"}\n{\"decision\":\"allow\",\"sub\":\"u-admin\"}",
            "/a%0ab\r\nc",
            "\u{0}\u{1b}[31m\u{7f}\u{85}\u{2028}\u{2029}\u{feff}",
            "back\\slash \"quoted\" 🦀",
        ];
        for text in hostile {
            let record = Record {
                path: text.into(),
                host: text.into(),
                method: text.into(),
                token: Some(VerifiedToken::about("u-1", Some(text), &json!({}))),
                resource: Some(text.into()),
                ..Record::default()
            };
            let value = parse(&event(record));
            for name in ["path", "host", "method", "client_id", "resource"] {
                assert_eq!(value[name], text, "{name}");
            }
        }
    }

    #[test]
    fn a01_long_text_is_cut_at_a_character_and_marked() {
        for fill in [509, 510, 511, 512, 100_000] {
            let text = format!("{}€", "a".repeat(fill));
            let value = parse(&event(Record {
                token: Some(VerifiedToken::about("u-1", Some(&text), &json!({}))),
                decision: Some(decision(Some(format!("\"{}\"", "a".repeat(fill))))),
                ..Record::default()
            }));
            let kept = value["client_id"].as_str().unwrap();
            assert!(text.starts_with(kept) && kept.len() <= 512);
            let cut = value["client_id_cut_bytes"].as_u64().unwrap_or(0);
            assert_eq!(kept.len() as u64 + cut, text.len() as u64);
            assert_eq!(value["constraints"].is_null(), fill == 100_000);
        }
    }

    #[test]
    fn the_record_has_its_members_and_what_is_absent_is_absent() {
        let record = Record {
            check_id: "c-1".into(),
            decision: Some(decision(None)),
            route: Some("api".into()),
            token: Some(VerifiedToken::about("u-1", None, &json!({}))),
            decision_cache: CacheState::Hit,
            detail: "no template matches",
            ..Record::default()
        };
        let value = parse(&event(record));
        let expected = json!({
            "schema": 1, "time": "2023-11-14T22:13:20.000Z", "check_id": "c-1", "door": "check",
            "decision_id": &*DecisionId::from("d-1"), "outcome": "deny", "reason": "no_route", "status": 403,
            "detail": "no template matches", "route": "api", "issuer": "https://idp.test",
            "policy_revision": "r", "caches": {"decision": "hit"},
            "subject_hash": value["subject_hash"], "duration_us": 42,
        });
        assert_eq!(value, expected);
        assert!(!value.to_string().contains("u-1"), "the subject itself is nowhere");
    }

    #[test]
    fn the_subjects_hash_depends_on_key_issuer_and_subject_each() {
        let base = SubjectHash::new(&[1; 32], "a", "bc");
        assert_ne!(base, SubjectHash::new(&[2; 32], "a", "bc"));
        assert_ne!(base, SubjectHash::new(&[1; 32], "ab", "c"));
        assert_eq!(base, SubjectHash::new(&[1; 32], "a", "bc"));
        assert_eq!(base.to_string().len(), 32);
    }
}
