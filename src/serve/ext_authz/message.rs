//! `envoy.service.auth.v3.CheckRequest`, as far as we read it, over the bytes it came in.
//!
//! The generated types copy every header into strings of its own and into a hash map; these keep
//! slices of the received buffer, so that a Check copies no header value and no body. Field
//! numbers are those of `attribute_context.proto` and `config/core/v3/base.proto`; a test decodes
//! what the generated types encode.

use std::collections::HashMap;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{Address, Metadata};

/// `CheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<AttributeContext>,
}

/// `AttributeContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    pub(crate) source: Option<Peer>,
    #[prost(message, optional, tag = "2")]
    pub(crate) destination: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub(crate) request: Option<Request>,
    #[prost(map = "string, string", tag = "10")]
    pub(crate) context_extensions: HashMap<String, String>,
    #[prost(message, optional, tag = "11")]
    pub(crate) metadata_context: Option<Metadata>,
    #[prost(message, optional, tag = "12")]
    pub(crate) tls_session: Option<TlsSession>,
    #[prost(message, optional, tag = "13")]
    pub(crate) route_metadata_context: Option<Metadata>,
}

/// `AttributeContext.Peer`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Peer {
    #[prost(message, optional, tag = "1")]
    pub(crate) address: Option<Address>,
    #[prost(map = "string, string", tag = "3")]
    pub(crate) labels: HashMap<String, String>,
    #[prost(string, tag = "4")]
    pub(crate) principal: String,
    #[prost(string, tag = "5")]
    pub(crate) certificate: String,
}

/// `AttributeContext.Request`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(message, optional, tag = "2")]
    pub(crate) http: Option<HttpRequest>,
}

/// `AttributeContext.HttpRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HttpRequest {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    /// A map on the wire is a list of its entries.
    #[prost(message, repeated, tag = "3")]
    pub(crate) headers: Vec<Field>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) path: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) host: Bytes,
    #[prost(string, tag = "6")]
    pub(crate) scheme: String,
    #[prost(int64, tag = "9")]
    pub(crate) size: i64,
    #[prost(string, tag = "10")]
    pub(crate) protocol: String,
    #[prost(bytes = "bytes", tag = "11")]
    pub(crate) body: Bytes,
    #[prost(bytes = "bytes", tag = "12")]
    pub(crate) raw_body: Bytes,
    #[prost(message, optional, tag = "13")]
    pub(crate) header_map: Option<HeaderMap>,
}

/// `config.core.v3.HeaderMap`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<Field>,
}

/// `config.core.v3.HeaderValue`, and an entry of the text map, which has no raw value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Field {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) raw_value: Bytes,
}

/// `AttributeContext.TLSSession`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TlsSession {
    #[prost(string, tag = "1")]
    pub(crate) sni: String,
}
