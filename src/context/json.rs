//! Profiles as text: checked strictly, kept as they came less the white space between tokens,
//! so that numbers keep every digit.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
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
    let value = Strict(MAX_DEPTH).deserialize(&mut reader).map_err(|_| TextError::Broken)?;
    reader.end().map_err(|_| TextError::Broken)?;
    if !value.is_object() {
        return Err(TextError::NoObject);
    }
    Ok((compact(text), value))
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

/// Reads a value that may nest this much deeper.
struct Strict(usize);

impl Strict {
    fn deeper<E: serde::de::Error>(&self) -> Result<usize, E> {
        self.0.checked_sub(1).ok_or_else(|| E::custom("nests too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict(depth))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut object = serde_json::Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict(depth))?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("has a member twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_5_a_profile_keeps_its_text_less_white_space() {
        let text =
            "{ \"a b\" : [1.10, 12345678901234567890123,\n 1e400000] ,\t\"q\\\" \\\\\": \" x \" }";
        // Not a number that a double can hold: refused by the reader, not rounded.
        assert_eq!(object(text.as_bytes()), Err(TextError::Broken));
        let text = text.replace(",\n 1e400000", "");
        let (compact, _) = object(text.as_bytes()).unwrap();
        assert_eq!(compact, r#"{"a b":[1.10,12345678901234567890123],"q\" \\":" x "}"#);
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
