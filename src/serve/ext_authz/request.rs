//! `CheckRequest` → [`Request`]. Headers, target and body are not copied: they stay slices of the
//! message.

use std::borrow::Cow;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::google::protobuf::{Struct, Value as WireValue, value::Kind};
use prost::Message as _;
use serde_json::{Map, Number, Value};

use super::message::{Fields, Malformed, Part};
use crate::model::{Body, Code, Headers, Peer, Refusal, Request};

/// Envoy says with it that it cut the body (`allow_partial_message`).
const PARTIAL: &str = "x-envoy-auth-partial-body";

/// Most header fields of one request, and most entries of any other map; Envoy itself takes 100
/// header fields where nothing else is configured.
const MAX_FIELDS: usize = 1024;

const REQUEST_ID: &str = "x-request-id";

const TOO_MANY: Refusal = Refusal::new(Code::TooLarge, "more than 1,024 header fields");

impl From<Malformed> for Refusal {
    fn from(Malformed: Malformed) -> Self {
        Self::new(Code::Undecodable, "the message is no CheckRequest")
    }
}

/// Reads what Envoy says of the request in a `CheckRequest`. Field numbers are those of
/// `attribute_context.proto` and `config/core/v3/{base,address}.proto`; a test reads what the
/// generated types write.
///
/// # Errors
/// `undecodable`, `request_missing` where there are no HTTP attributes, `too_large` for too many
/// fields.
pub(crate) fn read(message: &Bytes) -> Result<Request, Refusal> {
    let mut draft = Draft::new(message);
    let mut fields = Fields::of(message);
    while let Some((number, part)) = fields.next()? {
        if number == 1 {
            draft.missing = "no request";
            draft.attributes(part.bytes()?)?;
        }
    }
    draft.finish()
}

/// A request of which a part is known.
struct Draft<'m> {
    message: &'m Bytes,
    request: Request,
    /// What the message lacks so far; empty once it has HTTP attributes.
    missing: &'static str,
    /// Envoy's own name for the request.
    stream_id: &'m str,
    /// The fields of `headers`, which joins repeated ones.
    joined: Headers,
    /// The fields of `header_map`, as they came.
    raw: Headers,
    text_body: Bytes,
    raw_body: Bytes,
    size: i64,
}

impl<'m> Draft<'m> {
    fn new(message: &'m Bytes) -> Self {
        Self {
            message,
            request: Request::default(),
            missing: "no attributes",
            stream_id: "",
            joined: Headers::within(message),
            raw: Headers::within(message),
            text_body: Bytes::new(),
            raw_body: Bytes::new(),
            size: 0,
        }
    }

    fn slice(&self, part: Part<'m>) -> Result<Bytes, Malformed> {
        Ok(self.message.slice_ref(part.bytes()?))
    }

    /// `AttributeContext`.
    fn attributes(&mut self, message: &'m [u8]) -> Result<(), Refusal> {
        let mut fields = Fields::of(message);
        let (mut metadata, mut route_metadata) = (None, None);
        while let Some((number, part)) = fields.next()? {
            match number {
                1 => peer(&mut self.request.source, part.bytes()?)?,
                2 => peer(&mut self.request.destination, part.bytes()?)?,
                4 => {
                    let mut fields = Fields::of(part.bytes()?);
                    if self.missing == "no request" {
                        self.missing = "no http";
                    }
                    while let Some((number, part)) = fields.next()? {
                        if number == 2 {
                            self.missing = "";
                            self.http(part.bytes()?)?;
                        }
                    }
                }
                10 => entry(&mut self.request.context_extensions, part.bytes()?)?,
                11 => merge(&mut metadata, part)?,
                12 => self.tls(part.bytes()?)?,
                13 => merge(&mut route_metadata, part)?,
                _ => {}
            }
        }
        self.request.metadata.extend(self::metadata(metadata));
        self.request.route_metadata.extend(self::metadata(route_metadata));
        Ok(())
    }

    /// `AttributeContext.HttpRequest`.
    fn http(&mut self, message: &'m [u8]) -> Result<(), Refusal> {
        let mut fields = Fields::of(message);
        while let Some((number, part)) = fields.next()? {
            match number {
                1 => self.stream_id = part.text()?,
                2 => self.request.method = word(part.text()?),
                // A map on the wire is a list of its entries.
                3 => field(&mut self.joined, part.bytes()?)?,
                4 => self.request.target = self.slice(part)?,
                5 => self.request.host = self.slice(part)?,
                6 => self.request.scheme = word(part.text()?),
                9 => self.size = part.number()?.cast_signed(),
                10 => self.request.protocol = word(part.text()?),
                11 => self.text_body = self.slice(part)?,
                12 => self.raw_body = self.slice(part)?,
                13 => {
                    let mut fields = Fields::of(part.bytes()?);
                    while let Some((number, part)) = fields.next()? {
                        if number == 1 {
                            field(&mut self.raw, part.bytes()?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `AttributeContext.TLSSession`.
    fn tls(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut fields = Fields::of(message);
        while let Some((number, part)) = fields.next()? {
            if number == 1 {
                let sni = part.text()?;
                self.request.tls_sni = Some(sni).filter(|sni| !sni.is_empty()).map(str::to_owned);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Request, Refusal> {
        if !self.missing.is_empty() {
            return Err(Refusal::new(Code::RequestMissing, self.missing));
        }
        let headers = self.headers();
        let mut request = self.request;
        // The attribute is Envoy's stream id; the id that logs and backends share is the header.
        request.id = match headers.first(REQUEST_ID) {
            Some(id) => String::from_utf8_lossy(id).into_owned(),
            None => self.stream_id.to_owned(),
        };
        request.body = body(self.text_body, self.raw_body, self.size, &headers);
        request.headers = headers;
        Ok(request)
    }

    /// The fields without pseudo-headers. Raw ones (`encode_raw_headers`) come first and win; their
    /// pseudo-headers hold the bytes that the text attributes cannot.
    fn headers(&mut self) -> Headers {
        let mut headers = std::mem::take(&mut self.raw);
        headers.retain(|field| {
            match field.name {
                b":path" => self.request.target = self.message.slice_ref(field.value),
                b":authority" => self.request.host = self.message.slice_ref(field.value),
                b":method" if self.request.method.is_empty() => {
                    self.request.method = word(&String::from_utf8_lossy(field.value));
                }
                [b':', ..] => {}
                _ => return true,
            }
            false
        });
        let mut joined = std::mem::take(&mut self.joined);
        joined.retain(|field| {
            !field.name.starts_with(b":") && !headers.fields().any(|raw| raw.name == field.name)
        });
        if headers.is_empty() {
            return joined;
        }
        for field in joined.fields() {
            headers.push(field.name, field.value);
        }
        headers
    }
}

/// Adds a `HeaderValue`, or an entry of the text map, which has no raw value; within the bound for
/// each form.
fn field(headers: &mut Headers, message: &[u8]) -> Result<(), Refusal> {
    let (mut name, mut value, mut raw) = (&[][..], &[][..], &[][..]);
    let mut fields = Fields::of(message);
    while let Some((number, part)) = fields.next()? {
        match number {
            1 => name = part.bytes()?,
            2 => value = part.bytes()?,
            3 => raw = part.bytes()?,
            _ => {}
        }
    }
    if headers.len() >= MAX_FIELDS {
        return Err(TOO_MANY);
    }
    headers.push(name, if raw.is_empty() { value } else { raw });
    Ok(())
}

/// A word of which there are few: hardly any needs a place of its own.
fn word(text: &str) -> Cow<'static, str> {
    const USUAL: [&str; 12] = [
        "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "http", "https", "HTTP/1.1",
        "HTTP/2", "HTTP/3",
    ];
    match USUAL.into_iter().find(|usual| *usual == text) {
        Some(usual) => usual.into(),
        None => text.to_owned().into(),
    }
}

fn body(text: Bytes, raw: Bytes, size: i64, headers: &Headers) -> Body {
    let bytes = if raw.is_empty() { text } else { raw };
    // A client may send the header too; then a whole body counts as partial, which is refused
    // where a body matters.
    let says_partial = |value: &[u8]| value.to_ascii_lowercase().windows(4).any(|w| w == b"true");
    Body { bytes, partial: headers.all(PARTIAL).any(says_partial), size }
}

/// `AttributeContext.Peer`.
fn peer(peer: &mut Peer, message: &[u8]) -> Result<(), Refusal> {
    let mut fields = Fields::of(message);
    while let Some((number, part)) = fields.next()? {
        match number {
            1 => address(&mut peer.address, part.bytes()?)?,
            3 => entry(&mut peer.labels, part.bytes()?)?,
            4 => part.text()?.clone_into(&mut peer.principal),
            5 => part.text()?.clone_into(&mut peer.certificate),
            _ => {}
        }
    }
    Ok(())
}

/// `Address`: that of a socket; the other kinds have none.
fn address(address: &mut String, message: &[u8]) -> Result<(), Malformed> {
    let mut kinds = Fields::of(message);
    while let Some((number, part)) = kinds.next()? {
        match number {
            1 => {
                let mut socket = Fields::of(part.bytes()?);
                while let Some((number, part)) = socket.next()? {
                    if number == 2 {
                        part.text()?.clone_into(address);
                    }
                }
            }
            2 | 3 => address.clear(),
            _ => {}
        }
    }
    Ok(())
}

/// An entry of a text map; a later one replaces an earlier one of the same key.
fn entry(map: &mut Vec<(String, String)>, message: &[u8]) -> Result<(), Refusal> {
    let (mut key, mut value) = ("", "");
    let mut fields = Fields::of(message);
    while let Some((number, part)) = fields.next()? {
        match number {
            1 => key = part.text()?,
            2 => value = part.text()?,
            _ => {}
        }
    }
    if let Some((_, known)) = map.iter_mut().find(|(known, _)| known == key) {
        value.clone_into(known);
    } else if map.len() < MAX_FIELDS {
        map.push((key.to_owned(), value.to_owned()));
    } else {
        return Err(Refusal::new(Code::TooLarge, "more than 1,024 entries of a map"));
    }
    Ok(())
}

/// Takes in one occurrence of a `Metadata`.
fn merge(metadata: &mut Option<core::Metadata>, part: Part<'_>) -> Result<(), Malformed> {
    let bytes = part.bytes()?;
    metadata.get_or_insert_default().merge(bytes).map_err(|_| Malformed)
}

fn metadata(metadata: Option<core::Metadata>) -> Map<String, Value> {
    let namespaces = metadata.map(|m| m.filter_metadata).unwrap_or_default();
    namespaces.into_iter().map(|(name, value)| (name, object(value))).collect()
}

fn object(object: Struct) -> Value {
    Value::Object(object.fields.into_iter().map(|(name, value)| (name, json(value))).collect())
}

/// The decoder bounds the nesting (100 levels), so this recursion is bounded too.
fn json(value: WireValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => number_of(number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::StructValue(fields)) => object(fields),
        Some(Kind::ListValue(list)) => Value::Array(list.values.into_iter().map(json).collect()),
    }
}

/// Whole numbers are written without a fraction, as people and policies write them.
fn number_of(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests;
