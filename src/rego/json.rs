//! JSON text to the engine's values and back.
//!
//! Ours, because the engine's own reader turns integers beyond 64 bits into floats (OPA keeps
//! their digits), takes an object with a certain key of `serde_json`'s for a number, and
//! multiplies `1e999999999` out.

use std::collections::BTreeMap;

use regorus::Value;
use serde_json::{Map, Number, Value as Json};

/// Nesting that the reader accepts, `serde_json`'s own.
const MAX_DEPTH: usize = 128;
/// Longest number, in characters.
const MAX_NUMBER: usize = 512;
/// Largest power of ten, either way; a double has no more.
const MAX_EXPONENT: u32 = 400;

/// Why a text is no document: malformed, or beyond the limits of depth and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct JsonError(pub(super) &'static str);

type Parsed<T> = Result<T, JsonError>;

/// Reads one whole document.
pub(super) fn parse(text: &str) -> Parsed<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at == text.len() { Ok(value) } else { Err(JsonError("text after the document")) }
}

/// Whether a number's text is within the limits.
pub(super) fn number_fits(text: &str) -> bool {
    let exponent = text.split_once(['e', 'E']).map_or("0", |(_, exponent)| exponent);
    let digits = exponent.trim_start_matches(['+', '-']);
    text.len() <= MAX_NUMBER && digits.parse::<u32>().is_ok_and(|e| e <= MAX_EXPONENT)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn word(&mut self, word: &str, value: Value) -> Parsed<Value> {
        if !self.rest().starts_with(word) {
            return Err(JsonError("unknown word"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Parsed<Value> {
        if depth > MAX_DEPTH {
            return Err(JsonError("nested too deeply"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?.into())),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(JsonError("a value is missing")),
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Value> {
        let mut members = BTreeMap::new();
        self.at += 1;
        self.space();
        if self.take(b'}') {
            return Ok(Value::new_object());
        }
        loop {
            self.space();
            let name = Value::String(self.string()?.into());
            self.space();
            if !self.take(b':') {
                return Err(JsonError("a colon is missing"));
            }
            let value = self.value(depth + 1)?;
            members.insert(name, value);
            self.space();
            if self.take(b'}') {
                return Ok(Value::from(members));
            }
            if !self.take(b',') {
                return Err(JsonError("a comma is missing"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<Value> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.take(b']') {
            return Ok(Value::from(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Value::from(items));
            }
            if !self.take(b',') {
                return Err(JsonError("a comma is missing"));
            }
        }
    }

    fn string(&mut self) -> Parsed<std::borrow::Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return Err(JsonError("a string is missing"));
        }
        let (start, mut escaped) = (self.at, false);
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(0..=0x1f) | None => return Err(JsonError("a string is not closed")),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        if escaped {
            let quoted = self.text.get(start..self.at).unwrap_or_default();
            let text: String =
                serde_json::from_str(quoted).map_err(|_| JsonError("a malformed escape"))?;
            return Ok(text.into());
        }
        Ok(self.text.get(start + 1..self.at - 1).unwrap_or_default().into())
    }

    fn number(&mut self) -> Parsed<Value> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let text = rest.get(..length).unwrap_or_default();
        self.at += length;
        if let Ok(small) = text.parse::<i64>() {
            // JSON knows neither a plus sign nor leading zeros.
            let plain = text.strip_prefix('-').unwrap_or(text);
            if plain == "0" || plain.starts_with(|c: char| matches!(c, '1'..='9')) {
                return Ok(Value::from(small));
            }
        }
        if !number_fits(text) {
            return Err(JsonError("a number beyond the limits"));
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            return Err(JsonError("a malformed number"));
        }
        Value::from_numeric_string(text).map_err(|_| JsonError("a malformed number"))
    }
}

/// The value as JSON, at most about `budget` bytes of it; `None` where it is larger. A value may
/// share its parts, so that a small one in memory is huge written out. As OPA does, a set
/// becomes an array and a member's name that is no string is written as JSON.
pub(super) fn to_json(value: &Value, budget: &mut usize) -> Option<Json> {
    spend(budget, 16)?;
    Some(match value {
        Value::Null | Value::Undefined => Json::Null,
        Value::Bool(bool) => Json::Bool(*bool),
        Value::String(text) => {
            spend(budget, text.len())?;
            Json::String(text.as_ref().to_owned())
        }
        Value::Number(number) => {
            let text = number.format_decimal();
            spend(budget, text.len())?;
            Json::Number(text.parse::<Number>().ok()?)
        }
        Value::Array(items) => {
            Json::Array(items.iter().map(|item| to_json(item, budget)).collect::<Option<_>>()?)
        }
        Value::Set(items) => Json::Array(
            items.iter_sorted().map(|item| to_json(item, budget)).collect::<Option<_>>()?,
        ),
        Value::Object(members) => {
            let mut map = Map::new();
            for (name, value) in members.iter_sorted() {
                let name = match to_json(name, budget)? {
                    Json::String(text) => text,
                    other => other.to_string(),
                };
                map.insert(name, to_json(value, budget)?);
            }
            Json::Object(map)
        }
    })
}

fn spend(budget: &mut usize, bytes: usize) -> Option<()> {
    *budget = budget.checked_sub(bytes)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        to_json(&parse(text).unwrap(), &mut 10_000).unwrap().to_string()
    }

    #[test]
    fn s1_5_numbers_keep_every_digit() {
        for text in [
            "0",
            "-7",
            "9223372036854775807",
            "18446744073709551615",
            "123456789012345678901234567890",
            "-123456789012345678901234567890",
            "0.1",
        ] {
            assert_eq!(round(text), text);
        }
    }

    #[test]
    fn documents_round_trip() {
        for text in [
            r#"{"a":[1,true,false,null,{"b":"x"}],"c":{}}"#,
            r#"["\"\\\n","é😀"]"#,
            "[]",
            r#"{"$serde_json::private::Number":"1e999999999"}"#,
        ] {
            assert_eq!(round(text), text);
        }
        assert_eq!(round(" { \"a\" : [ 1 , 2 ] } "), r#"{"a":[1,2]}"#);
        assert_eq!(round(r#""\u00e9\ud83d\ude00""#), "\"é😀\"");
    }

    #[test]
    fn s6_8_what_is_malformed_or_beyond_the_limits_is_refused_at_once() {
        let deep = "[".repeat(100_000);
        let long = "9".repeat(100_000);
        for text in [
            "",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01",
            "+1",
            "1.",
            "-",
            "1e",
            "nul",
            "\"",
            "\"\\",
            "\"\\u12\"",
            "\"\n\"",
            "1 2",
            "1e999999999",
            "1e-999999999",
            "{,}",
            deep.as_str(),
            long.as_str(),
        ] {
            assert!(parse(text).is_err(), "{}", text.get(..20.min(text.len())).unwrap_or(text));
        }
    }

    #[test]
    fn s6_8_a_value_that_shares_its_parts_is_not_written_out_beyond_the_budget() {
        let mut value = Value::from("x");
        for _ in 0..64 {
            value = Value::from(vec![value.clone(), value]);
        }
        assert_eq!(to_json(&value, &mut 1_000_000), None);
    }
}
