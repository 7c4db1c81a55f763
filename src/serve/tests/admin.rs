//! The admin door and what the check door serves beside Checks.

use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::*;

async fn ask(server: &Server, method: &str, path: &str) -> (u16, String, String) {
    let stream = tokio::net::TcpStream::connect(server.admin.to_string()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = ::http::Request::builder().method(method).uri(path).header("host", "x");
    let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    let kind = answer.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, kind.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_6_admin_serves_health_readiness_and_metrics_only() {
    let server = Server::start(Setup::default());
    server.client().await.check(get("/a")).await.unwrap();
    assert_eq!(ask(&server, "GET", "/health").await.0, 200);
    let (status, _, body) = ask(&server, "GET", "/ready").await;
    assert_eq!((status, body.contains("parts")), (200, false));
    let (status, _, body) = ask(&server, "GET", "/ready?verbose").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 200, "an optional part does not count");
    assert_eq!(body["parts"][1]["name"], "issuer:other");
    assert_eq!(body["parts"][1]["ready"], false);
    let (status, kind, body) = ask(&server, "GET", "/metrics").await;
    assert_eq!(
        (status, kind.as_str()),
        (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(body.ends_with("# EOF\n"));
    let (_, _, body) = ask(&server, "GET", "/metrics/json").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["portcullis_checks"]["samples"][0]["value"], 1.0);
    for (method, path, expected) in [
        ("GET", "/", 404),
        ("GET", "/decide", 404),
        ("POST", "/health", 405),
        ("HEAD", "/health", 200),
    ] {
        let (status, _, body) = ask(&server, method, path).await;
        assert_eq!(status, expected, "{method} {path}");
        if expected >= 400 {
            let body: Value = serde_json::from_str(&body).unwrap();
            assert!(body["error"].is_string() && body["message"].is_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_6_a_header_that_does_not_end_is_cut_off() {
    let limits = Limits { header_timeout: HumanDuration::millis(200), ..Limits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() });
    let mut stream = tokio::net::TcpStream::connect(server.admin.to_string()).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(3), stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_describes_the_check_with_all_it_imports() {
    let server = Server::start(Setup::default());
    let mut client = ServerReflectionClient::new(server.channel().await);
    let request = |message_request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let symbol = "envoy.service.auth.v3.Authorization".to_owned();
    let imported = "envoy/config/core/v3/base.proto".to_owned();
    let asked = futures_util::stream::iter([
        request(MessageRequest::ListServices(String::new())),
        request(MessageRequest::FileContainingSymbol(symbol.clone())),
        request(MessageRequest::FileByFilename(imported)),
    ]);
    let mut answers = client.server_reflection_info(asked).await.unwrap().into_inner();
    let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = next().await else { panic!("no list") };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    assert!(names.contains(&symbol) && names.contains(&"grpc.health.v1.Health".to_owned()));
    assert!(matches!(next().await, MessageResponse::FileDescriptorResponse(_)));
    assert!(matches!(next().await, MessageResponse::FileDescriptorResponse(_)));
}
