//! gRPC by hand: one unary call over cleartext HTTP/2, with every byte at hand.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Request};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest, CheckResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use prost::Message as _;

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// HTTP status; 200 for whatever gRPC answers.
    pub(crate) http: u16,
    /// `grpc-status` where it came with the headers, as it does for an error.
    pub(crate) status: Option<u16>,
    /// `grpc-message` likewise.
    pub(crate) message: String,
    /// The bytes of the one message, without its framing.
    pub(crate) payload: Vec<u8>,
}

/// Calls `path` on that port of loopback.
pub(crate) fn call(port: u16, path: &str, headers: &[(&str, &str)], payload: &[u8]) -> Reply {
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    body.extend_from_slice(payload);
    let run = async move {
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
        let mut request = client
            .post(format!("http://127.0.0.1:{port}{path}"))
            .timeout(Duration::from_secs(20))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body).send().await.unwrap();
        let text = |name| answer.headers().get(name).and_then(|v| v.to_str().ok());
        let status = text("grpc-status").and_then(|t| t.parse().ok());
        let message = text("grpc-message").unwrap_or_default().to_owned();
        let http = answer.status().as_u16();
        let framed = answer.bytes().await.unwrap_or_default();
        Reply { http, status, message, payload: framed.get(5..).unwrap_or_default().to_vec() }
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)
}

/// One Check, asked of Portcullis directly.
pub(crate) fn check(port: u16, request: &CheckRequest) -> CheckResponse {
    let path = "/envoy.service.auth.v3.Authorization/Check";
    let reply = call(port, path, &[], &request.encode_to_vec());
    assert_eq!(reply.status, None, "{reply:?}");
    CheckResponse::decode(reply.payload.as_slice()).unwrap()
}

/// A `GET` of `target` as Envoy tells of it with `encode_raw_headers`.
pub(crate) fn get(target: &str, headers: &[(&str, &[u8])]) -> CheckRequest {
    let raw = |(name, value): &(&str, &[u8])| HeaderValue {
        key: (*name).to_owned(),
        raw_value: value.to_vec(),
        ..HeaderValue::default()
    };
    let http = HttpRequest {
        id: "req-1".to_owned(),
        method: "GET".to_owned(),
        path: target.to_owned(),
        host: "api.example.test".to_owned(),
        scheme: "https".to_owned(),
        size: -1,
        header_map: Some(HeaderMap { headers: headers.iter().map(raw).collect() }),
        ..HttpRequest::default()
    };
    let request = Some(Request { http: Some(http), ..Request::default() });
    CheckRequest { attributes: Some(AttributeContext { request, ..AttributeContext::default() }) }
}

/// The HTTP status of an answer; 200 for an allow.
pub(crate) fn status(response: &CheckResponse) -> i32 {
    match response.http_response.as_ref().unwrap() {
        HttpResponse::OkResponse(_) => 200,
        HttpResponse::DeniedResponse(answer) | HttpResponse::ErrorResponse(answer) => {
            answer.status.as_ref().unwrap().code
        }
    }
}

/// A text of the dynamic metadata; empty if it is not there.
pub(crate) fn metadata(response: &CheckResponse, name: &str) -> String {
    let fields = &response.dynamic_metadata.as_ref().unwrap().fields;
    match fields.get(name).and_then(|value| value.kind.as_ref()) {
        Some(Kind::StringValue(text)) => text.clone(),
        None => String::new(),
        other => panic!("{name}: {other:?}"),
    }
}
