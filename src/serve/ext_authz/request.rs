//! `CheckRequest` → [`Request`]. Headers, target and body are not copied: they stay slices of the
//! message.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::google::protobuf::{Struct, Value as WireValue, value::Kind};
use prost::Message as _;
use serde_json::{Map, Number, Value};

use super::message::{Fields, Malformed, Part};
use crate::model::{Body, Code, Header, HeaderName, Headers, Peer, Refusal, Request};

/// Envoy says with it that it cut the body (`allow_partial_message`).
const PARTIAL: &str = "x-envoy-auth-partial-body";

/// Most header fields of one request, and most entries of any other map; Envoy itself takes 100
/// header fields where nothing else is configured.
const MAX_FIELDS: usize = 1024;

/// Header fields of a usual request.
const FIELDS: usize = 32;

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
    /// The fields of `headers`, which joins repeated ones.
    joined: Vec<Header>,
    /// The fields of `header_map`, as they came.
    raw: Vec<Header>,
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
            joined: Vec::new(),
            raw: Vec::new(),
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
                1 => part.text()?.clone_into(&mut self.request.id),
                2 => part.text()?.clone_into(&mut self.request.method),
                // A map on the wire is a list of its entries.
                3 => {
                    let field = self.field(part.bytes()?)?;
                    push(&mut self.joined, field)?;
                }
                4 => self.request.target = self.slice(part)?,
                5 => self.request.host = self.slice(part)?,
                6 => part.text()?.clone_into(&mut self.request.scheme),
                9 => self.size = part.number()?.cast_signed(),
                10 => part.text()?.clone_into(&mut self.request.protocol),
                11 => self.text_body = self.slice(part)?,
                12 => self.raw_body = self.slice(part)?,
                13 => {
                    let mut fields = Fields::of(part.bytes()?);
                    while let Some((number, part)) = fields.next()? {
                        if number == 1 {
                            let field = self.field(part.bytes()?)?;
                            push(&mut self.raw, field)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `HeaderValue`, and an entry of the text map, which has no raw value.
    fn field(&self, message: &'m [u8]) -> Result<Header, Malformed> {
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
        let name = HeaderName::new(self.message.slice_ref(name));
        let value = self.message.slice_ref(if raw.is_empty() { value } else { raw });
        Ok(Header { name, value })
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
        let fields = self.headers();
        let mut request = self.request;
        // The attribute is Envoy's stream id; the id that logs and backends share is the header.
        if let Some(id) = fields.iter().find(|field| field.name == REQUEST_ID) {
            request.id = String::from_utf8_lossy(&id.value).into_owned();
        }
        request.body = body(self.text_body, self.raw_body, self.size, &fields);
        request.headers = Headers::new(fields);
        Ok(request)
    }

    /// The fields without pseudo-headers. Raw ones (`encode_raw_headers`) come first and win; their
    /// pseudo-headers hold the bytes that the text attributes cannot.
    fn headers(&mut self) -> Vec<Header> {
        let mut fields = std::mem::take(&mut self.raw);
        fields.retain(|field| {
            match field.name.as_bytes() {
                b":path" => self.request.target = field.value.clone(),
                b":authority" => self.request.host = field.value.clone(),
                b":method" if self.request.method.is_empty() => {
                    self.request.method = String::from_utf8_lossy(&field.value).into_owned();
                }
                [b':', ..] => {}
                _ => return true,
            }
            false
        });
        let raw_fields = fields.len();
        for field in std::mem::take(&mut self.joined) {
            let known = fields.iter().take(raw_fields).any(|raw| raw.name == field.name);
            if !known && !field.name.as_bytes().starts_with(b":") {
                fields.push(field);
            }
        }
        fields
    }
}

/// Adds a field, within the bound for each form.
fn push(fields: &mut Vec<Header>, field: Header) -> Result<(), Refusal> {
    if fields.capacity() == 0 {
        fields.reserve(FIELDS);
    }
    if fields.len() >= MAX_FIELDS {
        return Err(TOO_MANY);
    }
    fields.push(field);
    Ok(())
}

fn body(text: Bytes, raw: Bytes, size: i64, fields: &[Header]) -> Body {
    let bytes = if raw.is_empty() { text } else { raw };
    // A client may send the header too; then a whole body counts as partial, which is refused
    // where a body matters.
    let says_partial = |field: &Header| {
        field.name == PARTIAL && field.value.to_ascii_lowercase().windows(4).any(|w| w == b"true")
    };
    Body { bytes, partial: fields.iter().any(says_partial), size }
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
