//! Strict JSON: no duplicate keys, bounded nesting, nothing after the value.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Deepest nesting of a header or of claims; the object itself is level one.
const MAX_DEPTH: usize = 16;

/// `bytes` as a JSON object. Two readers of a text that this accepts read the same members.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict(MAX_DEPTH).deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// Reads one value with so many levels of nesting left.
#[derive(Clone, Copy)]
struct Strict(usize);

impl Strict {
    fn inner<E: Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom("too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(value) = entries.next_element_seed(inner)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(inner)?;
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate member"));
            }
        }
        Ok(Value::Object(map))
    }
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
    }
}
