//! `CheckRequest` → [`Request`]. Strings are moved, not copied.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::service::auth::v3::{CheckRequest, attribute_context as wire};
use envoy_types::pb::google::protobuf::{Struct, Value as WireValue, value::Kind};
use serde_json::{Map, Number, Value};

use crate::model::{Body, Code, Header, Headers, Peer, Refusal, Request};

/// Envoy says with it that it cut the body (`allow_partial_message`).
const PARTIAL: &str = "x-envoy-auth-partial-body";

const REQUEST_ID: &str = "x-request-id";

/// Reads what Envoy says of the request.
///
/// # Errors
/// `request_missing` where there are no HTTP attributes.
pub(crate) fn read(check: CheckRequest) -> Result<Request, Refusal> {
    let missing = |what| Refusal::new(Code::RequestMissing, what);
    let attributes = check.attributes.ok_or(missing("no attributes"))?;
    let http = attributes.request.ok_or(missing("no request"))?.http.ok_or(missing("no http"))?;
    let mut request = Request {
        id: http.id,
        method: http.method,
        target: http.path.into_bytes(),
        host: http.host.into_bytes(),
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
    let fields = headers(http.headers, raw, &mut request);
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
    joined: HashMap<String, String>,
    raw: Vec<core::HeaderValue>,
    request: &mut Request,
) -> Vec<Header> {
    let mut fields = Vec::with_capacity(joined.len() + raw.len());
    for core::HeaderValue { key, value, raw_value } in raw {
        let value = if raw_value.is_empty() { value.into_bytes() } else { raw_value };
        match key.as_str() {
            ":path" => request.target = value,
            ":authority" => request.host = value,
            ":method" if request.method.is_empty() => {
                request.method = String::from_utf8_lossy(&value).into_owned();
            }
            key if key.starts_with(':') => {}
            _ => fields.push(Header { name: lower(key), value }),
        }
    }
    let raw_fields = fields.len();
    for (key, value) in joined {
        let name = lower(key);
        let known = fields.iter().take(raw_fields).any(|field| field.name == name);
        if !known && !name.starts_with(':') {
            fields.push(Header { name, value: value.into_bytes() });
        }
    }
    fields
}

/// Envoy's names are lower-case; this makes sure of it.
fn lower(mut name: String) -> String {
    name.make_ascii_lowercase();
    name
}

fn body(text: String, raw: Vec<u8>, size: i64, fields: &[Header]) -> Body {
    let bytes = if raw.is_empty() { text.into_bytes() } else { raw };
    // A client may send the header too; then a whole body counts as partial, which is refused
    // where a body matters.
    let says_partial = |field: &Header| {
        field.name == PARTIAL && field.value.to_ascii_lowercase().windows(4).any(|w| w == b"true")
    };
    Body { bytes: bytes.into(), partial: fields.iter().any(says_partial), size }
}

fn peer(peer: Option<wire::Peer>) -> Peer {
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
