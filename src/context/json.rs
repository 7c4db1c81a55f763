//! Profiles as text: checked strictly, kept as they came less the white space between tokens,
//! so that numbers keep every digit.

use serde_json::Value;

use crate::model::strict_json;

/// Deepest nesting of objects and lists.
const MAX_DEPTH: usize = 32;

/// What is wrong with a profile's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextError {
    /// Not JSON, or it has a duplicate member or nests too deep.
    Broken,
    /// JSON, but no object.
    NoObject,
}

/// `bytes` as compact JSON text and as a value, if it is one JSON object without duplicate
/// members at any depth.
pub(super) fn object(bytes: &[u8]) -> Result<(String, Value), TextError> {
    let text = strict_json(bytes, MAX_DEPTH).map_err(|_| TextError::Broken)?;
    let compact = compact(text);
    let value: Value = serde_json::from_str(&compact).map_err(|_| TextError::Broken)?;
    if !value.is_object() {
        return Err(TextError::NoObject);
    }
    Ok((compact, value))
}

/// Valid JSON text without the white space between its tokens.
fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keep = |c: &char| {
        if in_string {
            (escaped, in_string) = (!escaped && *c == '\\', escaped || *c != '"');
            return true;
        }
        in_string = *c == '"';
        !matches!(c, ' ' | '\t' | '\n' | '\r')
    };
    text.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_5_a_profile_keeps_its_text_less_white_space() {
        let text =
            "{ \"a b\" : [1.10, 12345678901234567890123,\n -0.0 ] ,\t\"q\\\" \\\\\": \" [ \" }";
        let (compact, _) = object(text.as_bytes()).unwrap();
        assert_eq!(compact, r#"{"a b":[1.10,12345678901234567890123,-0.0],"q\" \\":" [ "}"#);
    }

    #[test]
    fn s5_5_a_profile_that_two_readers_could_read_differently_is_refused() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let broken = [
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"a":1,"\u0061":2}]}"#,
            r#"{"a":1}{"b":2}"#,
            r#"{"a":1"#,
            r#"{"a":"\ud800"}"#,
            "",
            "\u{feff}{}",
            &deep,
        ];
        for text in broken {
            assert_eq!(object(text.as_bytes()), Err(TextError::Broken), "{text}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), Err(TextError::Broken));
        for text in ["null", "[]", "\"x\"", "7"] {
            assert_eq!(object(text.as_bytes()), Err(TextError::NoObject), "{text}");
        }
        let fits = format!("{{\"a\":{}1{}}}", "[".repeat(MAX_DEPTH - 1), "]".repeat(MAX_DEPTH - 1));
        assert!(object(fits.as_bytes()).is_ok());
    }
}
