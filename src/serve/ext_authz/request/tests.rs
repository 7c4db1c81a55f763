//! What Envoy says, in each way it can say it.

use envoy_types::pb::envoy::config::core::v3::{
    Address, HeaderMap, HeaderValue, Metadata, SocketAddress,
};
use envoy_types::pb::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, attribute_context as wire,
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
    read(&sent(check(http))).unwrap()
}

/// What the generated types send.
fn sent(attributes: AttributeContext) -> Bytes {
    CheckRequest { attributes: Some(attributes) }.encode_to_vec().into()
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
    assert_eq!(request.headers.len(), 3, "pseudo-headers are no fields");
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
    assert!(plain.headers.fields().eq(raw.headers.fields()));
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
    let request = read(&sent(attributes)).unwrap();
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

fn whole() -> Vec<u8> {
    let http = wire::HttpRequest {
        id: "1".to_owned(),
        method: "POST".into(),
        path: "/a?b=c".to_owned(),
        host: "api.example.test".to_owned(),
        headers: joined(&[("x-joined", "1")]),
        header_map: Some(raw(&[("x-raw", b"1"), ("x-request-id", b"r-1")])),
        body: "{\"n\":1}".to_owned(),
        size: 300,
        ..Default::default()
    };
    let socket = SocketAddress { address: "203.0.113.9".to_owned(), ..Default::default() };
    let address = Some(core::address::Address::SocketAddress(socket));
    let source = wire::Peer { address: Some(Address { address }), ..Default::default() };
    let tls_session = Some(wire::TlsSession { sni: "api.example.test".to_owned() });
    sent(AttributeContext { source: Some(source), tls_session, ..check(http) }).to_vec()
}

#[test]
fn s3_6_a_cut_or_damaged_message_is_read_or_refused_as_the_generated_types_would() {
    let whole = whole();
    for cut in 0..whole.len() {
        let message = Bytes::copy_from_slice(&whole[..cut]);
        let theirs = CheckRequest::decode(message.clone());
        assert!(read(&message).is_ok() <= theirs.is_ok(), "cut at {cut}");
    }
    // A linear congruential generator (Knuth's constants) from a fixed start.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut both, mut refused, mut groups) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut message = whole.clone();
        for _ in 0..=next(2) {
            let at = next(message.len());
            message[at] = u8::try_from(next(256)).unwrap();
        }
        let message = Bytes::from(message);
        let Ok(theirs) = CheckRequest::decode(message.clone()) else { continue };
        let http = theirs.attributes.and_then(|a| a.request).and_then(|r| r.http);
        match read(&message) {
            Ok(request) => {
                let http = http.unwrap();
                assert_eq!((request.method, request.body.size), (http.method.into(), http.size));
                both += 1;
            }
            Err(refusal) if refusal.code == Code::RequestMissing => {
                assert!(http.is_none());
                refused += 1;
            }
            // The generated types pass over groups that nobody sends.
            Err(refusal) => {
                assert_eq!(refusal.code, Code::Undecodable);
                groups += 1;
            }
        }
    }
    assert!(both > 3_000 && refused > 10 && groups < 100, "{both} {refused} {groups}");
}

#[test]
fn s1_5_a_message_of_very_many_entries_is_refused_before_they_are_kept() {
    let many = |count: usize| {
        let pairs: Vec<_> = (0..count).map(|n| (format!("x-{n}"), "1")).collect();
        pairs.iter().map(|(name, value)| (name.clone(), (*value).to_owned())).collect()
    };
    let code = |attributes| read(&sent(attributes)).err().map(|refusal| refusal.code);
    for (count, expected) in [(1024, None), (1025, Some(Code::TooLarge))] {
        let headers: HashMap<String, String> = many(count);
        assert_eq!(code(check(wire::HttpRequest { headers, ..Default::default() })), expected);
        let context_extensions = many(count);
        let http = check(wire::HttpRequest::default());
        assert_eq!(code(AttributeContext { context_extensions, ..http }), expected);
    }
}
