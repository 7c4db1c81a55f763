//! What Envoy says of the request that is to be decided, free of any wire format.

use std::borrow::Cow;

use bytes::Bytes;

pub use super::headers::{Header, Headers};

/// One request as Envoy saw it (`envoy.service.auth.v3.AttributeContext`).
#[derive(Clone, Default)]
pub struct Request {
    /// The request's id: `x-request-id`, else Envoy's `request.http.id`; empty if unknown.
    pub id: String,
    /// HTTP method, as sent.
    pub method: Cow<'static, str>,
    /// The raw target, path and query as sent, undecoded.
    pub target: Bytes,
    /// The `Host` or `:authority` value, as sent.
    pub host: Bytes,
    /// `http` or `https`, as Envoy says; empty if unknown.
    pub scheme: Cow<'static, str>,
    /// Such as `HTTP/1.1`; empty if unknown.
    pub protocol: Cow<'static, str>,
    /// The header fields, in no particular order.
    pub headers: Headers,
    /// The body, as far as Envoy buffered it.
    pub body: Body,
    /// Who sent it.
    pub source: Peer,
    /// Where it is going.
    pub destination: Peer,
    /// `context_extensions` of the Envoy route, by name.
    pub context_extensions: Vec<(String, String)>,
    /// `metadata_context` by namespace.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// `route_metadata_context` by namespace.
    pub route_metadata: serde_json::Map<String, serde_json::Value>,
    /// SNI of the client's TLS session, if any.
    pub tls_sni: Option<String>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Target, body and metadata may hold credentials.
        f.debug_struct("Request")
            .field("id", &self.id)
            .field("method", &self.method)
            .field("target", &format_args!("[{} bytes]", self.target.len()))
            .field("headers", &self.headers)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// One end of the client's connection.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// IP address without port; empty if unknown.
    pub address: String,
    /// The authenticated identity of the peer: URI SAN, DNS SAN or subject, as Envoy chose.
    pub principal: String,
    /// URL-encoded PEM certificate, where Envoy passes it.
    pub certificate: String,
    /// Labels such as `app`.
    pub labels: Vec<(String, String)>,
}

/// The body as far as Envoy buffered it.
#[derive(Clone, Default)]
pub struct Body {
    /// The bytes; empty both for no body and for a body that Envoy did not buffer.
    pub bytes: Bytes,
    /// Envoy cut it (`x-envoy-auth-partial-body: true`).
    pub partial: bool,
    /// The whole body's size, where Envoy knows it (−1 is unknown).
    pub size: i64,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} of {} bytes, partial: {}]", self.bytes.len(), self.size, self.partial)
    }
}
