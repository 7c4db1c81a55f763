//! The backend's answers.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::Error;
use super::backend::Body;

/// Body bytes that an echo shows at most.
const SHOWN: usize = 4096;

/// A whole body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed()
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, value: &Value) -> Result<Response<Body>, Error> {
    let body = full(format!("{value}\n"));
    Ok(Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(body)?)
}

/// JSON that ends in the middle, and before what the length says.
pub(crate) fn cut() -> Result<Response<Body>, Error> {
    let frames = [Ok(Frame::data(Bytes::from_static(b"{\"user-name\":\"DAM")))];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    let answer = Response::builder().header(CONTENT_TYPE, "application/json");
    Ok(answer.header(CONTENT_LENGTH, 500).body(body)?)
}

/// Printable ASCII as it is, any other byte and the backslash as `\xNN`.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let one = |&b: &u8| match b {
        b'\\' => "\\x5c".to_owned(),
        0x20..=0x7e => char::from(b).to_string(),
        _ => format!("\\x{b:02x}"),
    };
    bytes.iter().map(one).collect()
}

/// What arrived: method, target, every header field, the body's size and its beginning.
pub(crate) fn seen(parts: &Parts, body: &[u8]) -> Value {
    let headers: Vec<Value> = parts
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), escaped(value.as_bytes())]))
        .collect();
    json!({
        "method": parts.method.as_str(),
        "target": parts.uri.path_and_query().map_or("", |target| target.as_str()),
        "headers": headers,
        "body_size": body.len(),
        "body": escaped(body.get(..SHOWN).unwrap_or(body)),
    })
}

/// A gRPC answer of one message, whose bytes are the echo's JSON.
pub(crate) fn grpc(parts: &Parts) -> Result<Response<Body>, Error> {
    let message = seen(parts, b"").to_string();
    let mut data = vec![0];
    data.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
    data.extend_from_slice(message.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let frames = [Ok(Frame::data(Bytes::from(data))), Ok(Frame::trailers(trailers))];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    Ok(Response::builder().header(CONTENT_TYPE, "application/grpc").body(body)?)
}

/// Accepts a WebSocket (RFC 6455) and sends back every byte that comes, with an echo of the
/// request's headers in `x-seen` of the handshake.
pub(crate) fn upgrade(mut request: Request<Incoming>) -> Result<Response<Body>, Error> {
    let key = request.headers().get("sec-websocket-key").ok_or("no sec-websocket-key")?;
    let mut accept = key.as_bytes().to_vec();
    accept.extend_from_slice(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &accept));
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(stream) = upgraded.await {
            let (mut from, mut to) = tokio::io::split(TokioIo::new(stream));
            // Ends when the client does.
            drop(tokio::io::copy(&mut from, &mut to).await);
        }
    });
    let (parts, _) = request.into_parts();
    Ok(Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "websocket")
        .header("sec-websocket-accept", accept)
        .header("x-seen", seen(&parts, b"").to_string())
        .body(full(""))?)
}
