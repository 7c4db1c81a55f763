//! Profiles as text: checked strictly, kept as they came less the white space between tokens,
//! so that numbers keep every digit.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

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
    let text = std::str::from_utf8(bytes).map_err(|_| TextError::Broken)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_any(NoDuplicates).map_err(|_| TextError::Broken)?;
    reader.end().map_err(|_| TextError::Broken)?;
    let (compact, depth) = compact(text);
    if depth > MAX_DEPTH {
        return Err(TextError::Broken);
    }
    // Read again, as `serde_json` itself makes values: how it hands numbers to others depends
    // on its features.
    let value: Value = serde_json::from_str(&compact).map_err(|_| TextError::Broken)?;
    if !value.is_object() {
        return Err(TextError::NoObject);
    }
    Ok((compact, value))
}

/// Valid JSON text without the white space between its tokens, and how deep it nests.
fn compact(text: &str) -> (String, usize) {
    let (mut in_string, mut escaped) = (false, false);
    let (mut depth, mut deepest) = (0_usize, 0);
    let keep = |c: &char| {
        if in_string {
            (escaped, in_string) = (!escaped && *c == '\\', escaped || *c != '"');
            return true;
        }
        in_string = *c == '"';
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = depth.max(deepest);
        !matches!(c, ' ' | '\t' | '\n' | '\r')
    };
    (text.chars().filter(keep).collect(), deepest)
}

/// Looks at a value for members that it has twice.
struct NoDuplicates;

impl<'de> DeserializeSeed<'de> for NoDuplicates {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NoDuplicates {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !seen.insert(name) {
                return Err(A::Error::custom("has a member twice"));
            }
            members.next_value_seed(Self)?;
        }
        Ok(())
    }
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
