//! What Envoy says of the request that is to be decided, free of any wire format.

use bytes::Bytes;

/// One request as Envoy saw it (`envoy.service.auth.v3.AttributeContext`).
#[derive(Clone, Default)]
pub struct Request {
    /// The request's id: `x-request-id`, else Envoy's `request.http.id`; empty if unknown.
    pub id: String,
    /// HTTP method, as sent.
    pub method: String,
    /// The raw target, path and query as sent, undecoded.
    pub target: Bytes,
    /// The `Host` or `:authority` value, as sent.
    pub host: Bytes,
    /// `http` or `https`, as Envoy says; empty if unknown.
    pub scheme: String,
    /// Such as `HTTP/1.1`; empty if unknown.
    pub protocol: String,
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

/// A header's name, lower-case; a slice of the message that it came in.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderName(Bytes);

impl HeaderName {
    /// Takes a name; one that is not lower-case UTF-8 is made so.
    #[must_use]
    pub fn new(name: Bytes) -> Self {
        if name.iter().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
            return Self(name);
        }
        Self(String::from_utf8_lossy(&name).to_ascii_lowercase().into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The name's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for HeaderName {
    fn from(name: &str) -> Self {
        Self::new(Bytes::copy_from_slice(name.as_bytes()))
    }
}

impl PartialEq<str> for HeaderName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for HeaderName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl std::fmt::Display for HeaderName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

/// One header field.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Lower-case name.
    pub name: HeaderName,
    /// The raw value; may hold any byte.
    pub value: Bytes,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be credentials.
        write!(f, "{}: [{} bytes]", self.name, self.value.len())
    }
}

/// Header fields. With Envoy's `encode_raw_headers` a repeated field keeps its entries;
/// without, Envoy has joined them by commas already.
#[derive(Debug, Clone, Default)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// Takes fields whose names are lower-case already.
    #[must_use]
    pub fn new(fields: Vec<Header>) -> Self {
        Self(fields)
    }

    /// For tests and for people's own requests: lower-cases the names.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let field = |(name, value): (&str, &[u8])| Header {
            name: name.into(),
            value: Bytes::copy_from_slice(value),
        };
        Self(pairs.into_iter().map(field).collect())
    }

    /// Every value of `name` (lower-case).
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.0.iter().filter(move |h| h.name == name).map(|h| &*h.value)
    }

    /// The first value of `name` (lower-case).
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|h| h.name == name).map(|h| &*h.value)
    }

    /// All fields.
    #[must_use]
    pub fn fields(&self) -> &[Header] {
        &self.0
    }

    /// Whether a field of that name (lower-case) is there.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|h| h.name == name)
    }
}
