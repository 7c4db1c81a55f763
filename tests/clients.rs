//! Clients that do not speak plain HTTP/1.1: gRPC and WebSocket.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use envoy_types::pb::envoy::service::auth::v3::CheckRequest;

use crate::harness::{Answer, Ask, Setup, Token, grpc};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// A gRPC method is always a POST; what it does is said here.
const SERVICE: &str = "routes:
- name: service
  match: { path: \"/series.v1.Series/{method}\", methods: [POST] }
  access: authenticated
  policy: cwms
  resource: timeseries
  action: read
  attributes:
    office_id: { header: x-office, use: selects }
  require_headers: [x-cwms-auth-context]
";

/// The backend is spoken to in the client's own protocol.
fn any_protocol() -> Setup {
    let from = "  - name: backend\n    type: STATIC\n";
    let to = "  - name: backend
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        use_downstream_protocol_config: { http2_protocol_options: {} }
";
    Setup::quickstart().envoy(from, to)
}

#[test]
fn s3_4_a_grpc_caller_gets_a_grpc_status() {
    let world = any_protocol().portcullis("routes:\n", SERVICE).start();
    let token = format!("Bearer {}", Token::of("dam.operator").sign());
    let call = |headers: &[(&str, &str)]| {
        grpc::call(world.ports.envoy, "/series.v1.Series/Read", headers, b"")
    };

    let reply = call(&[("authorization", &token), ("x-office", "SPK")]);
    assert_eq!((reply.http, reply.status), (200, None), "{reply:?}");
    let seen: serde_json::Value = serde_json::from_slice(&reply.payload).unwrap();
    assert!(seen.to_string().contains("x-cwms-auth-context"), "{seen}");

    let reply = call(&[("x-office", "SPK")]);
    assert_eq!((reply.http, reply.status), (200, Some(16)), "unauthenticated: {reply:?}");
    assert!(!reply.message.is_empty(), "{reply:?}");
    let reply = call(&[("authorization", &token), ("x-office", "SWT")]);
    assert_eq!((reply.http, reply.status), (200, Some(7)), "permission denied: {reply:?}");
    assert_eq!(world.backend.requests(), 1);
}

#[test]
fn a_websocket_is_decided_once_and_then_flows() {
    let world = Setup::quickstart().start();
    let ask = Ask::get(OWN)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let allowed = ask.clone().bearer(&Token::of("dam.operator").sign());

    let (answer, mut stream) = upgrade(world.ports.envoy, allowed);
    assert_eq!(answer.status, 101, "{answer:?}");
    assert_eq!(answer.header("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(answer.header("x-seen").contains("x-cwms-auth-context"), "{answer:?}");
    for frame in [b"\x81\x83\x00\x00\x00\x00abc", b"\x81\x83\x00\x00\x00\x00xyz"] {
        stream.write_all(frame).unwrap();
        let mut back = [0; 9];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, frame);
    }

    let (answer, _) = upgrade(world.ports.envoy, ask);
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(world.counts(), [1, 1, 0]);
}

#[test]
fn a_check_without_attributes_is_denied_and_never_an_empty_answer() {
    let world = Setup::quickstart().start();
    let reply = grpc::check(world.ports.check, &CheckRequest::default());
    let status = reply.status.as_ref().expect("an unset status would be an allow");
    assert_ne!(status.code, 0);
    assert!(reply.http_response.is_some(), "{reply:?}");
}

/// The answer's head, and the connection behind it.
fn upgrade(port: u16, ask: Ask) -> (Answer, TcpStream) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&ask.into_head()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    (Answer::parse(&head), stream)
}
