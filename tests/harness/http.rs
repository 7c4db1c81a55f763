//! An HTTP/1.1 client that can say anything: odd targets, repeated and non-UTF-8 fields.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A request in the making; every byte is the test's own.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Ask {
    /// A request line with `target` as it is, and the fields that HTTP/1.1 asks for.
    pub(crate) fn new(method: &str, target: &str) -> Self {
        let head = format!("{method} {target} HTTP/1.1\r\nhost: api.example.test\r\n");
        Self { head: head.into_bytes(), body: Vec::new() }
    }

    /// `GET`.
    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A field with any bytes for a value.
    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.head.extend_from_slice(name.as_bytes());
        self.head.extend_from_slice(b": ");
        self.head.extend_from_slice(value.as_ref());
        self.head.extend_from_slice(b"\r\n");
        self
    }

    /// A bearer token.
    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// A body with its length.
    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { head: self.header("content-length", body.len().to_string()).head, body }
    }

    /// Sends it to that port of loopback and reads the whole answer.
    pub(crate) fn send(self, port: u16) -> Answer {
        self.try_send(port).unwrap_or_else(|e| panic!("no answer on {port}: {e}"))
    }

    /// As [`Ask::send`], for a peer that may not be there.
    pub(crate) fn try_send(self, port: u16) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut bytes = self.header("connection", "close");
        bytes.head.extend_from_slice(b"\r\n");
        bytes.head.extend_from_slice(&bytes.body);
        // A peer that refuses early may close before it has read everything.
        drop(stream.write_all(&bytes.head));
        let mut raw = Vec::new();
        let mut buffer = [0; 16384];
        // Envoy may keep a refused connection for a second: the end is told by the length.
        while !is_whole(&raw) {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => raw.extend_from_slice(&buffer[..n]),
                Err(e) if raw.is_empty() => return Err(e),
                Err(_) => break,
            }
        }
        Ok(Answer::parse(&raw))
    }

    /// The bytes of the head, for a test that keeps the connection.
    pub(crate) fn into_head(mut self) -> Vec<u8> {
        self.head.extend_from_slice(b"\r\n");
        self.head
    }
}

/// Whether an answer's length says that all of it is there.
fn is_whole(raw: &[u8]) -> bool {
    let Some(end) = raw.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let head = Answer::parse(&raw[..end + 4]);
    let field = |name: &str| head.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    match (field("content-length").and_then(|v| v.parse().ok()), field("transfer-encoding")) {
        (Some(length), _) => raw.len() - end - 4 >= length,
        (None, Some("chunked")) => raw.ends_with(b"0\r\n\r\n"),
        _ => false,
    }
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn parse(raw: &[u8]) -> Self {
        let end = raw.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(raw.len());
        let head = String::from_utf8_lossy(&raw[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|l| l.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = lines.filter_map(field).collect();
        let rest = raw.get(end + 4..).unwrap_or_default();
        let chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked");
        let body = if chunked { unchunk(rest) } else { rest.to_vec() };
        Self { status, headers, body }
    }

    /// The one value of a response header; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(n, _)| n == name);
        let value = values.next().map_or("", |(_, v)| v.as_str());
        assert!(values.next().is_none(), "{name} twice in {self:?}");
        value
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The reason code in an error's body.
    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Every field that the backend saw under that name or a spelling that a backend could
    /// take for it (other characters than letters and digits are one).
    pub(crate) fn seen(&self, name: &str) -> Vec<String> {
        let fold = |name: &str| -> String {
            name.chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
                .collect()
        };
        let fields = self.json()["headers"].as_array().cloned().unwrap_or_default();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let of = |f: &Value| {
            (fold(f[0].as_str().unwrap_or_default()) == fold(name)).then(|| text(&f[1]))
        };
        fields.iter().filter_map(of).collect()
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|t| usize::from_str_radix(t, 16).ok());
        let Some(size @ 1..) = size else { break };
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { break };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    body
}
