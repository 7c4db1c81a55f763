//! Strict JSON: no duplicate keys, bounded nesting, nothing after the value.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Deepest nesting of a header or of claims; the object itself is level one.
const MAX_DEPTH: usize = 16;

/// `bytes` as a JSON object. Two readers of a text that this accepts read the same members.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Strict(MAX_DEPTH).deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    // Read again, as `serde_json` itself makes values: how it hands over numbers depends on
    // what else in the program asks of it.
    serde_json::from_slice(bytes).ok()
}

/// Looks at one value with so many levels of nesting left.
#[derive(Clone, Copy)]
struct Strict(usize);

impl Strict {
    fn inner<E: Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom("too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while entries.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("duplicate member"));
            }
            members.next_value_seed(inner)?;
        }
        Ok(())
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
