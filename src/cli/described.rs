//! A request as people write it: YAML or JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{Body, Headers, Peer, Request};

/// One request, described. Everything but the path may be left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    #[serde(default = "get")]
    method: String,
    /// Path and query, as a client would send them.
    path: String,
    #[serde(default = "localhost")]
    host: String,
    #[serde(default = "https")]
    scheme: String,
    #[serde(default = "http_1_1")]
    protocol: String,
    #[serde(default)]
    headers: BTreeMap<String, OneOrMany>,
    /// Text is sent as it is; anything else as JSON with its content type.
    body: Option<Value>,
    /// Envoy cut the body.
    #[serde(default)]
    partial_body: bool,
    #[serde(default)]
    source: DescribedPeer,
    #[serde(default)]
    destination: DescribedPeer,
    #[serde(default)]
    context_extensions: BTreeMap<String, String>,
    #[serde(default)]
    metadata: serde_json::Map<String, Value>,
    #[serde(default)]
    route_metadata: serde_json::Map<String, Value>,
    tls_sni: Option<String>,
    #[serde(default)]
    request_id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DescribedPeer {
    address: String,
    principal: String,
    certificate: String,
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn get() -> String {
    "GET".to_owned()
}

fn localhost() -> String {
    "localhost".to_owned()
}

fn https() -> String {
    "https".to_owned()
}

fn http_1_1() -> String {
    "HTTP/1.1".to_owned()
}

impl From<DescribedPeer> for Peer {
    fn from(peer: DescribedPeer) -> Self {
        Self {
            address: peer.address,
            principal: peer.principal,
            certificate: peer.certificate,
            labels: peer.labels.into_iter().collect(),
        }
    }
}

impl From<Described> for Request {
    fn from(described: Described) -> Self {
        let mut headers = Headers::default();
        for (name, values) in described.headers {
            let values = match values {
                OneOrMany::One(value) => vec![value],
                OneOrMany::Many(values) => values,
            };
            for value in values {
                headers.push(name.as_bytes(), value.as_bytes());
            }
        }
        let bytes = match described.body {
            None => Bytes::new(),
            Some(Value::String(text)) => Bytes::from(text),
            Some(json) => {
                if !headers.contains("content-type") {
                    headers.push(b"content-type", b"application/json");
                }
                Bytes::from(json.to_string())
            }
        };
        let size = i64::try_from(bytes.len()).unwrap_or(-1);
        Self {
            id: described.request_id,
            method: described.method.into(),
            target: described.path.into(),
            host: described.host.into(),
            scheme: described.scheme.into(),
            protocol: described.protocol.into(),
            headers,
            body: Body { bytes, partial: described.partial_body, size },
            source: described.source.into(),
            destination: described.destination.into(),
            context_extensions: described.context_extensions.into_iter().collect(),
            metadata: described.metadata,
            route_metadata: described.route_metadata,
            tls_sni: described.tls_sni,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(value: Value) -> Request {
        serde_json::from_value::<Described>(value).unwrap().into()
    }

    #[test]
    fn a_path_is_enough() {
        let request = request(json!({"path": "/a?b=c"}));
        assert_eq!((&*request.method, &*request.target), ("GET", &b"/a?b=c"[..]));
        assert_eq!(&*request.host, b"localhost");
    }

    #[test]
    fn a_json_body_brings_its_content_type_and_a_text_none() {
        let json_body = request(json!({"path": "/", "method": "POST", "body": {"n": 1}}));
        assert_eq!(json_body.headers.first("content-type"), Some(&b"application/json"[..]));
        assert_eq!(&*json_body.body.bytes, br#"{"n":1}"#);
        let text = request(json!({"path": "/", "body": "pizza", "headers": {"X-A": ["1", "2"]}}));
        assert!(!text.headers.contains("content-type"));
        assert_eq!(text.headers.all("x-a").count(), 2);
    }

    #[test]
    fn an_unknown_member_is_refused() {
        let wrong = json!({"path": "/", "haeders": {}});
        assert!(serde_json::from_value::<Described>(wrong).is_err());
    }
}
