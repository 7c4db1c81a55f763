//! `CheckRequest` → [`Request`]. Nothing is copied: what is not text stays a slice of the message.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::google::protobuf::{Struct, Value as WireValue, value::Kind};
use serde_json::{Map, Number, Value};

use super::message::{self, CheckRequest, Field};
use crate::model::{Body, Code, Header, HeaderName, Headers, Peer, Refusal, Request};

/// Envoy says with it that it cut the body (`allow_partial_message`).
const PARTIAL: &str = "x-envoy-auth-partial-body";

/// Most header fields of one request; Envoy itself takes 100 where nothing else is configured.
const MAX_FIELDS: usize = 1024;

const REQUEST_ID: &str = "x-request-id";

/// Reads what Envoy says of the request.
///
/// # Errors
/// `request_missing` where there are no HTTP attributes, `too_large` for too many fields.
pub(crate) fn read(check: CheckRequest) -> Result<Request, Refusal> {
    let missing = |what| Refusal::new(Code::RequestMissing, what);
    let attributes = check.attributes.ok_or(missing("no attributes"))?;
    let http = attributes.request.ok_or(missing("no request"))?.http.ok_or(missing("no http"))?;
    let mut request = Request {
        id: http.id,
        method: http.method,
        target: http.path,
        host: http.host,
        scheme: http.scheme,
        protocol: http.protocol,
        source: peer(attributes.source),
        destination: peer(attributes.destination),
        context_extensions: attributes.context_extensions.into_iter().collect(),
        metadata: metadata(attributes.metadata_context),
        route_metadata: metadata(attributes.route_metadata_context),
        tls_sni: attributes.tls_session.map(|tls| tls.sni).filter(|sni| !sni.is_empty()),
        ..Request::default()
    };
    let raw = http.header_map.map(|map| map.headers).unwrap_or_default();
    let fields = headers(http.headers, raw, &mut request)?;
    // The attribute is Envoy's stream id; the id that logs and backends share is the header.
    if let Some(id) = fields.iter().find(|field| field.name == REQUEST_ID) {
        request.id = String::from_utf8_lossy(&id.value).into_owned();
    }
    request.body = body(http.body, http.raw_body, http.size, &fields);
    request.headers = Headers::new(fields);
    Ok(request)
}

/// The fields without pseudo-headers. Raw ones (`encode_raw_headers`) come first and win; their
/// pseudo-headers hold the bytes that the text attributes cannot.
fn headers(
    joined: Vec<Field>,
    raw: Vec<Field>,
    request: &mut Request,
) -> Result<Vec<Header>, Refusal> {
    if joined.len() + raw.len() > MAX_FIELDS {
        return Err(Refusal::new(Code::TooLarge, "more than 1,024 header fields"));
    }
    let mut fields = Vec::with_capacity(joined.len() + raw.len());
    for Field { key, value, raw_value } in raw {
        let value = if raw_value.is_empty() { value } else { raw_value };
        match &*key {
            b":path" => request.target = value,
            b":authority" => request.host = value,
            b":method" if request.method.is_empty() => {
                request.method = String::from_utf8_lossy(&value).into_owned();
            }
            [b':', ..] => {}
            _ => fields.push(Header { name: HeaderName::new(key), value }),
        }
    }
    let raw_fields = fields.len();
    for Field { key, value, .. } in joined {
        let name = HeaderName::new(key);
        let known = fields.iter().take(raw_fields).any(|field| field.name == name);
        if !known && !name.as_bytes().starts_with(b":") {
            fields.push(Header { name, value });
        }
    }
    Ok(fields)
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

fn peer(peer: Option<message::Peer>) -> Peer {
    let Some(peer) = peer else { return Peer::default() };
    let address = match peer.address.and_then(|address| address.address) {
        Some(core::address::Address::SocketAddress(socket)) => socket.address,
        _ => String::new(),
    };
    Peer {
        address,
        principal: peer.principal,
        certificate: peer.certificate,
        labels: peer.labels.into_iter().collect(),
    }
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
