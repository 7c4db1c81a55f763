//! A connection to who is asked, and one exchange on it.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::deck::Item;
use super::plan::Mode;
use super::wire::{self, Said};

type Anything = Box<dyn std::error::Error + Send + Sync>;

const PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// An open connection; HTTP/2 ones can be shared.
pub(crate) enum Connection {
    Grpc(http2::SendRequest<Full<Bytes>>, Uri),
    Http(http1::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(crate) async fn open(target: SocketAddr, mode: Mode) -> Result<Self, Anything> {
        let stream = TcpStream::connect(target).await?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        // An end of the connection shows in the next exchange.
        match mode {
            Mode::Grpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(Self::Grpc(sender, format!("http://{target}{PATH}").parse()?))
            }
            Mode::Http => {
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(Self::Http(sender))
            }
        }
    }

    /// Another handle of the same connection, where it can be shared.
    pub(crate) fn share(&self) -> Option<Self> {
        match self {
            Self::Grpc(sender, uri) => Some(Self::Grpc(sender.clone(), uri.clone())),
            Self::Http(_) => None,
        }
    }

    pub(crate) async fn ask(&mut self, item: &Item) -> Result<Said, Anything> {
        match (self, item) {
            (Self::Grpc(sender, uri), Item::Grpc(message)) => grpc(sender, uri, message).await,
            (Self::Http(sender), Item::Http { method, uri, headers, body }) => {
                let mut request = Request::new(Full::new(body.clone()));
                request.method_mut().clone_from(method);
                request.uri_mut().clone_from(uri);
                for (name, value) in headers {
                    request.headers_mut().append(name, value.clone());
                }
                sender.ready().await?;
                let answer = sender.send_request(request).await?;
                let status = answer.status().as_u16();
                let body = answer.into_body().collect().await?.to_bytes();
                let reason = if status < 400 { String::new() } else { reason(&body) };
                Ok(Said { status, reason, sets: false })
            }
            _ => Err("the connection speaks another protocol".into()),
        }
    }
}

async fn grpc(
    sender: &mut http2::SendRequest<Full<Bytes>>,
    uri: &Uri,
    message: &Bytes,
) -> Result<Said, Anything> {
    let mut request = Request::new(Full::new(message.clone()));
    *request.method_mut() = Method::POST;
    request.uri_mut().clone_from(uri);
    for (name, value) in
        [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "5S")]
    {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let answer = sender.send_request(request).await?;
    if !answer.status().is_success() {
        return Err(format!("HTTP status {}", answer.status()).into());
    }
    let body = answer.into_body().collect().await?;
    let code = body.trailers().and_then(|t| t.get("grpc-status")).cloned();
    if code.is_none_or(|code| code != "0") {
        return Err("the call ended with a gRPC error".into());
    }
    wire::said(&body.to_bytes()).ok_or_else(|| "the answer is no CheckResponse".into())
}

/// The member `reason` of a denial's JSON.
fn reason(body: &[u8]) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let reason = value.as_ref().and_then(|value| value.get("reason")?.as_str());
    reason.unwrap_or_default().to_owned()
}
