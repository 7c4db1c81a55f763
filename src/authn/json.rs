//! Strict JSON: no duplicate keys, bounded nesting, nothing after the value.

use serde_json::{Map, Value};

use crate::model::strict_json;

/// Deepest nesting of a header or of claims; the object itself is level one.
const MAX_DEPTH: usize = 16;

/// `bytes` as a JSON object. Two readers of a text that this accepts read the same members.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_str(strict_json(bytes, MAX_DEPTH).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_at_any_depth_depth_and_trailing_text_are_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":{"b":[{"c":1,"c":2}]}}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#"{"a":1} {}"#,
            r#"{"a":1}x"#,
            r#"["a"]"#,
            "",
            "{",
            "{\"a\":\"\u{0}\"}",
            r#"{"a":"\ud800"}"#,
        ] {
            assert_eq!(object(text.as_bytes()), None, "{text}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), None);
        let nested = |levels: usize| {
            let inner = "[".repeat(levels - 1) + &"]".repeat(levels - 1);
            format!(r#"{{"a":{inner}}}"#)
        };
        assert!(object(nested(MAX_DEPTH).as_bytes()).is_some());
        assert!(object(nested(MAX_DEPTH + 1).as_bytes()).is_none());
        assert!(object(nested(100_000).as_bytes()).is_none());
        let same = r#"{"a":[{"b":1},{"b":2}],"b":-1.5,"c":null,"d":true,"e":"\n"}"#;
        assert_eq!(Value::Object(object(same.as_bytes()).unwrap()).to_string(), same);
    }
}
