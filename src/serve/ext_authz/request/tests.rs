//! What Envoy says, in each way it can say it.

use envoy_types::pb::envoy::config::core::v3::{
    Address, HeaderMap, HeaderValue, Metadata, SocketAddress,
};
use envoy_types::pb::envoy::service::auth::v3::{
    AttributeContext, CheckRequest as Sent, attribute_context as wire,
};
use prost::Message as _;
use serde_json::json;
use std::collections::HashMap;

use super::*;

fn check(http: wire::HttpRequest) -> AttributeContext {
    let request = Some(wire::Request { http: Some(http), time: None });
    AttributeContext { request, ..AttributeContext::default() }
}

fn read_http(http: wire::HttpRequest) -> Request {
    read(received(check(http))).unwrap()
}

/// What we read of what the generated types send.
fn received(attributes: AttributeContext) -> CheckRequest {
    let sent = Sent { attributes: Some(attributes) }.encode_to_vec();
    CheckRequest::decode(Bytes::from(sent)).unwrap()
}

fn raw(pairs: &[(&str, &[u8])]) -> HeaderMap {
    let value = |(key, value): &(&str, &[u8])| HeaderValue {
        key: (*key).to_owned(),
        value: String::new(),
        raw_value: value.to_vec(),
    };
    HeaderMap { headers: pairs.iter().map(value).collect() }
}

fn joined(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn p08_raw_headers_keep_their_bytes_and_their_number() {
    let request = read_http(wire::HttpRequest {
        path: "/a!".to_owned(),
        host: "api!".to_owned(),
        header_map: Some(raw(&[
            (":path", b"/a\xff?b"),
            (":authority", b"api\xfe"),
            (":scheme", b"https"),
            ("authorization", b"Bearer one"),
            ("Authorization", b"Bearer two"),
            ("x-odd", b"\xff\x00"),
        ])),
        ..wire::HttpRequest::default()
    });
    assert_eq!(request.headers.all("authorization").count(), 2);
    assert_eq!(request.headers.first("x-odd"), Some(&b"\xff\x00"[..]));
    assert_eq!((&*request.target, &*request.host), (&b"/a\xff?b"[..], &b"api\xfe"[..]));
    assert_eq!(request.headers.fields().len(), 3, "pseudo-headers are no fields");
}

#[test]
fn p08_a_single_raw_entry_works_as_joined_headers_would() {
    let plain = read_http(wire::HttpRequest {
        headers: joined(&[("authorization", "Bearer x"), (":path", "/elsewhere")]),
        path: "/a".to_owned(),
        ..wire::HttpRequest::default()
    });
    let raw = read_http(wire::HttpRequest {
        header_map: Some(raw(&[("authorization", b"Bearer x"), (":path", b"/a")])),
        ..wire::HttpRequest::default()
    });
    assert_eq!(plain.headers.fields(), raw.headers.fields());
    assert_eq!(plain.target, raw.target);
}

#[test]
fn p08_where_both_forms_come_none_is_lost_and_raw_wins() {
    let request = read_http(wire::HttpRequest {
        headers: joined(&[("authorization", "Bearer joined"), ("x-only-joined", "1")]),
        header_map: Some(raw(&[("authorization", b"Bearer raw")])),
        ..wire::HttpRequest::default()
    });
    assert_eq!(request.headers.all("authorization").collect::<Vec<_>>(), [b"Bearer raw"]);
    assert!(request.headers.contains("x-only-joined"));
}

#[test]
fn bodies_come_as_text_or_bytes_and_partial_ones_are_marked() {
    let text = read_http(wire::HttpRequest { body: "{}".to_owned(), ..Default::default() });
    assert_eq!((&*text.body.bytes, text.body.partial), (&b"{}"[..], false));
    let bytes = read_http(wire::HttpRequest {
        raw_body: vec![0xff, 0],
        size: 900,
        headers: joined(&[("x-envoy-auth-partial-body", "true")]),
        ..Default::default()
    });
    assert_eq!(bytes.body.bytes, vec![0xff, 0]);
    assert_eq!((bytes.body.partial, bytes.body.size), (true, 900));
    for (value, partial) in [("false", false), ("True", true), ("false,true", true), ("", false)] {
        let headers = joined(&[("x-envoy-auth-partial-body", value)]);
        let request = read_http(wire::HttpRequest { headers, ..Default::default() });
        assert_eq!(request.body.partial, partial, "{value}");
    }
}

fn struct_of(fields: Vec<(&str, Kind)>) -> Struct {
    let field = |(name, kind): (&str, Kind)| (name.to_owned(), WireValue { kind: Some(kind) });
    Struct { fields: fields.into_iter().map(field).collect() }
}

#[test]
fn everything_else_that_envoy_says_comes_over() {
    let socket = SocketAddress { address: "203.0.113.9".to_owned(), ..Default::default() };
    let address = Some(core::address::Address::SocketAddress(socket));
    let metadata = struct_of(vec![
        ("whole", Kind::NumberValue(3.0)),
        ("part", Kind::NumberValue(0.5)),
        ("nan", Kind::NumberValue(f64::NAN)),
        ("large", Kind::NumberValue(1e300)),
        ("none", Kind::NullValue(0)),
        ("inner", Kind::StructValue(struct_of(vec![("on", Kind::BoolValue(true))]))),
    ]);
    let namespaces = |value: Struct| {
        let filter_metadata = [("ns".to_owned(), value)].into();
        Some(Metadata { filter_metadata, ..Metadata::default() })
    };
    let attributes = AttributeContext {
        source: Some(wire::Peer {
            address: Some(Address { address }),
            principal: "spiffe://example.test/a".to_owned(),
            certificate: "-----BEGIN%20".to_owned(),
            labels: joined(&[("app", "web")]),
            service: String::new(),
        }),
        context_extensions: joined(&[("tier", "gold")]),
        metadata_context: namespaces(metadata),
        route_metadata_context: namespaces(struct_of(vec![("r", Kind::BoolValue(false))])),
        tls_session: Some(wire::TlsSession { sni: "api.example.test".to_owned() }),
        ..check(wire::HttpRequest { size: -1, ..Default::default() })
    };
    let request = read(received(attributes)).unwrap();
    assert_eq!(request.source.address, "203.0.113.9");
    assert_eq!(request.source.principal, "spiffe://example.test/a");
    assert_eq!(request.source.certificate, "-----BEGIN%20");
    assert_eq!(request.source.labels, [("app".to_owned(), "web".to_owned())]);
    assert_eq!(request.destination.address, "");
    assert_eq!(request.context_extensions, [("tier".to_owned(), "gold".to_owned())]);
    assert_eq!(request.tls_sni.as_deref(), Some("api.example.test"));
    assert_eq!(request.body.size, -1);
    let expected = json!({
        "whole": 3, "part": 0.5, "nan": null, "large": 1e300, "none": null, "inner": {"on": true},
    });
    assert_eq!(request.metadata["ns"], expected);
    assert_eq!(request.metadata["ns"]["whole"].to_string(), "3");
    assert_eq!(request.route_metadata["ns"], json!({"r": false}));
}
