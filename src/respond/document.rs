//! JSON documents as header values: stamped, compact, ASCII only.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::{Code, Stamp};

/// Serialises `document` after filling in what only the core knows. The text holds printable
/// ASCII alone: JSON escapes what is not.
///
/// # Errors
/// [`Code::DecisionShape`] where a stamp's pointer leads nowhere.
pub(super) fn render(
    document: &Value,
    stamps: &[(String, Stamp)],
    decision_id: &str,
    decided_at: &str,
) -> Result<String, Code> {
    let mut document = document.clone();
    for (pointer, stamp) in stamps {
        let text = match stamp {
            Stamp::DecisionId => decision_id,
            Stamp::DecidedAt => decided_at,
        };
        fill(&mut document, pointer, text).ok_or(Code::DecisionShape)?;
    }
    Ok(text(&document))
}

/// Compact JSON in printable ASCII.
pub(super) fn text(value: &Value) -> String {
    ascii(&value.to_string())
}

/// Sets the member that `pointer` (RFC 6901) names; its parent object must be there.
fn fill(document: &mut Value, pointer: &str, text: &str) -> Option<()> {
    let (parent, member) = pointer.rsplit_once('/')?;
    let member = member.replace("~1", "/").replace("~0", "~");
    document.pointer_mut(parent)?.as_object_mut()?.insert(member, text.into());
    Some(())
}

/// Escapes what is not printable ASCII. JSON text holds such characters within strings only, so
/// an escape means the same there.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s6_3_stamps_fill_members_and_the_text_is_ascii_and_equal() {
        let document = json!({"policy": {"allow": true}, "user": "Zoë \u{1F30A} \u{2028} \u{7f}"});
        let stamps = [
            ("/policy/decision_id".to_owned(), Stamp::DecisionId),
            ("/timestamp".to_owned(), Stamp::DecidedAt),
        ];
        let text = render(&document, &stamps, "id-1", "2026-01-01T00:00:00.000Z").unwrap();
        assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text}");
        let mut expected = document.clone();
        expected["policy"]["decision_id"] = json!("id-1");
        expected["timestamp"] = json!("2026-01-01T00:00:00.000Z");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }

    #[test]
    fn s6_3_a_stamp_that_leads_nowhere_is_a_denial() {
        for pointer in ["", "x", "/no/such", "/list/0"] {
            let stamps = [(pointer.to_owned(), Stamp::DecisionId)];
            let result = render(&json!({"list": [1]}), &stamps, "id", "at");
            assert_eq!(result, Err(Code::DecisionShape), "{pointer}");
        }
    }
}
