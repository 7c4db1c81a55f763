//! The Check as Envoy sends it with the settings of `envoy/quickstart.yaml`, and what an answer
//! says.

use bytes::{BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest, CheckResponse};
use envoy_types::pb::google::protobuf::{Timestamp, value};
use prost::Message as _;

/// A request that Envoy would ask about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// HTTP method.
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) path: &'a str,
    /// Bearer token; empty for none.
    pub(crate) token: &'a str,
    /// Further header fields.
    pub(crate) headers: &'a [(String, String)],
    /// The request's body.
    pub(crate) body: &'a [u8],
}

fn raw(key: &str, value: &str) -> core::HeaderValue {
    core::HeaderValue {
        key: key.to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..core::HeaderValue::default()
    }
}

fn peer(port: u32) -> Peer {
    let socket = core::SocketAddress {
        address: "127.0.0.1".to_owned(),
        port_specifier: Some(core::socket_address::PortSpecifier::PortValue(port)),
        ..core::SocketAddress::default()
    };
    let address = core::address::Address::SocketAddress(socket);
    Peer { address: Some(core::Address { address: Some(address) }), ..Peer::default() }
}

fn fields(asked: &Asked<'_>) -> Vec<core::HeaderValue> {
    let mut fields = vec![
        raw(":authority", "water.example.test"),
        raw(":path", asked.path),
        raw(":method", asked.method),
        raw(":scheme", "http"),
        raw("user-agent", "k6/1.3.0 (https://k6.io/)"),
        raw("accept", "application/json"),
    ];
    if !asked.token.is_empty() {
        fields.push(raw("authorization", &format!("Bearer {}", asked.token)));
    }
    fields.extend(asked.headers.iter().map(|(name, value)| raw(name, value)));
    fields.extend([
        raw("x-forwarded-for", "127.0.0.1"),
        raw("x-forwarded-proto", "http"),
        raw("x-envoy-internal", "true"),
        raw("x-request-id", "2f0c2a6c-3f2e-4f4a-9a4e-0d6c5b8a7e11"),
    ]);
    fields
}

/// The framed message (gRPC's length-prefixed form).
pub(crate) fn message(asked: &Asked<'_>) -> Bytes {
    let http = HttpRequest {
        id: "12345678901234567890".to_owned(),
        method: asked.method.to_owned(),
        header_map: Some(core::HeaderMap { headers: fields(asked) }),
        path: asked.path.to_owned(),
        host: "water.example.test".to_owned(),
        scheme: "http".to_owned(),
        size: i64::try_from(asked.body.len()).unwrap_or(-1),
        protocol: "HTTP/1.1".to_owned(),
        raw_body: asked.body.to_vec(),
        ..HttpRequest::default()
    };
    let time = Some(Timestamp { seconds: 1_800_000_000, nanos: 123_456_000 });
    let attributes = AttributeContext {
        source: Some(peer(40_000)),
        destination: Some(peer(8080)),
        request: Some(Request { time, http: Some(http) }),
        metadata_context: Some(core::Metadata::default()),
        route_metadata_context: Some(core::Metadata::default()),
        ..AttributeContext::default()
    };
    let check = CheckRequest { attributes: Some(attributes) };
    let mut data = BytesMut::with_capacity(5 + check.encoded_len());
    data.put_u8(0);
    data.put_u32(u32::try_from(check.encoded_len()).unwrap_or(u32::MAX));
    data.extend_from_slice(&check.encode_to_vec());
    data.freeze()
}

/// What an answer says: the status that the client gets, and the reason where one is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Said {
    /// HTTP status; 200 for an allow, 0 where there was no answer.
    pub(crate) status: u16,
    /// The reason in the dynamic metadata; empty where there is none.
    pub(crate) reason: String,
    /// Whether the answer sets a request header.
    pub(crate) sets: bool,
}

/// Reads one framed answer; `None` where it is no `CheckResponse`, or one that has no status.
pub(crate) fn said(frame: &[u8]) -> Option<Said> {
    let (prefix, message) = frame.split_first_chunk::<5>()?;
    let [0, length @ ..] = *prefix else { return None };
    if message.len() != u32::from_be_bytes(length) as usize {
        return None;
    }
    let answer = CheckResponse::decode(message).ok()?;
    let fields = answer.dynamic_metadata.map(|metadata| metadata.fields).unwrap_or_default();
    let reason = match fields.get("reason").and_then(|value| value.kind.as_ref()) {
        Some(value::Kind::StringValue(reason)) => reason.clone(),
        _ => String::new(),
    };
    let status = |code: Option<i32>| code.and_then(|c| u16::try_from(c).ok()).unwrap_or(403);
    Some(match (answer.status?.code, answer.http_response) {
        (0, Some(HttpResponse::OkResponse(ok))) => {
            Said { status: 200, reason, sets: !ok.headers.is_empty() }
        }
        (0, _) => Said { status: 200, reason, sets: false },
        (_, Some(HttpResponse::DeniedResponse(denied))) => {
            Said { status: status(denied.status.map(|s| s.code)), reason, sets: false }
        }
        (_, Some(HttpResponse::ErrorResponse(error))) => {
            Said { status: status(error.status.map(|s| s.code)), reason, sets: false }
        }
        (_, _) => Said { status: 403, reason, sets: false },
    })
}
