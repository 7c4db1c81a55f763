//! The request's body as JSON: whole, unencoded and without duplicate keys, or not at all.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::limits;
use super::trie::header;
use crate::model::{NotStrict, Refusal, Request, strict_json};

/// A body as a route may read it.
#[derive(Debug, Clone, Copy)]
pub enum Read<'r> {
    /// JSON text without duplicate keys.
    Whole(&'r RawValue),
    /// Not that; the word is the value of `context.body_state`.
    Not(&'static str),
}

/// Reads the body.
///
/// # Errors
///
/// `input_too_large` for more than `max` bytes or too deep a nesting.
pub fn read(request: &Request, max: usize) -> Result<Read<'_>, Refusal> {
    let body = &request.body;
    if body.partial {
        return Ok(Read::Not("partial"));
    }
    if body.bytes.is_empty() {
        return Ok(Read::Not("absent"));
    }
    if header(request, "content-encoding").is_some_and(|v| !v.eq_ignore_ascii_case(b"identity")) {
        return Ok(Read::Not("encoded"));
    }
    if body.bytes.len() > max {
        return Err(limits::too_large("the body is too large"));
    }
    if !header(request, "content-type").is_some_and(|value| is_json(&value)) {
        return Ok(Read::Not("broken"));
    }
    Ok(check(&body.bytes)?.map_or(Read::Not("broken"), Read::Whole))
}

/// `application/json` or `application/…+json`, in UTF-8 where a charset is named.
fn is_json(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let value = value.to_ascii_lowercase();
    let mut parts = value.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let subtype = kind.strip_prefix("application/").unwrap_or_default();
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
    let json = subtype == "json" || subtype.ends_with("+json");
    json && subtype.bytes().all(is_token)
        && parts.all(|parameter| match parameter.split_once('=') {
            Some(("charset", charset)) => matches!(charset.trim_matches('"'), "utf-8" | "utf8"),
            Some(_) => !parameter.contains(','),
            None => parameter.is_empty(),
        })
}

/// The body as JSON, if it is JSON without duplicate keys.
fn check(body: &[u8]) -> Result<Option<&RawValue>, Refusal> {
    match strict_json(body, limits::DEPTH) {
        Ok(text) => Ok(serde_json::from_str(text).ok()),
        Err(NotStrict::TooDeep) => Err(limits::too_large("the body is nested too deeply")),
        Err(NotStrict::Broken) => Ok(None),
    }
}

/// A parsed JSON pointer (RFC 6901).
#[derive(Debug, Clone)]
pub(super) struct Pointer(Vec<Box<str>>);

impl Pointer {
    /// Reads a pointer; none where it is not one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let unescape = |token: &str| {
            let escapes_are_known =
                token.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
            escapes_are_known.then(|| token.replace("~1", "/").replace("~0", "~").into())
        };
        let tokens = text.strip_prefix('/')?.split('/').map(unescape);
        Some(Self(tokens.collect::<Option<_>>()?))
    }

    /// The pointer to the member `name`.
    pub(super) fn to_member(name: &str) -> Self {
        Self(vec![name.into()])
    }

    /// The value that the pointer names in a document of JSON; `null` is no value.
    pub(super) fn find<'r>(&self, document: &'r str) -> Option<&'r str> {
        let mut value = document;
        for token in &self.0 {
            let mut reader = serde_json::Deserializer::from_str(value);
            value = Step(token).deserialize(&mut reader).ok()??.get();
        }
        (value != "null").then_some(value)
    }
}

/// One step of a pointer.
struct Step<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let canonical = self.0 == "0" || !self.0.starts_with(['0', '+']);
        let wanted = self.0.parse::<usize>().ok().filter(|_| canonical);
        let mut found = None;
        let mut at = 0;
        while let Some(item) = items.next_element::<&'de RawValue>()? {
            if Some(at) == wanted {
                found = Some(item);
            }
            at += 1;
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<std::borrow::Cow<'de, str>>()? {
            if name == self.0 {
                found = Some(members.next_value::<&'de RawValue>()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
