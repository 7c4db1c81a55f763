//! A real Jaeger, with its collector and its query API on ports of their own.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Ask, Folder, Process, found, port, root};

/// A running Jaeger; it ends with the value.
pub(crate) struct Jaeger {
    _process: Process,
    /// OTLP over gRPC.
    pub(crate) grpc: u16,
    /// OTLP over HTTP.
    pub(crate) http: u16,
    query: u16,
    _folder: Folder,
}

/// One span, with the name of its service.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) raw: Value,
}

impl Span {
    /// Ids of the spans that it has links to.
    pub(crate) fn links(&self) -> Vec<String> {
        references(&self.raw, "FOLLOWS_FROM")
    }

    /// A tag's value as text; empty where it is not there.
    pub(crate) fn tag(&self, key: &str) -> String {
        let tags = self.raw["tags"].as_array().unwrap();
        let value = tags.iter().find(|tag| tag["key"] == key).map(|tag| tag["value"].clone());
        value.map_or(String::new(), |value| {
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        })
    }
}

/// Ids of the spans that `span` names so.
fn references(span: &Value, kind: &str) -> Vec<String> {
    let all = span["references"].as_array().cloned().unwrap_or_default();
    let of_kind = all.iter().filter(|reference| reference["refType"] == kind);
    of_kind.map(|reference| reference["spanID"].as_str().unwrap().to_owned()).collect()
}

/// One trace.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) spans: Vec<Span>,
    /// As Jaeger answered.
    pub(crate) raw: Value,
}

impl Trace {
    fn read(raw: &Value) -> Self {
        let span = |span: &Value| Span {
            service: raw["processes"][span["processID"].as_str().unwrap()]["serviceName"]
                .as_str()
                .unwrap()
                .to_owned(),
            name: span["operationName"].as_str().unwrap().to_owned(),
            id: span["spanID"].as_str().unwrap().to_owned(),
            parent: references(span, "CHILD_OF").pop(),
            raw: span.clone(),
        };
        let spans = raw["spans"].as_array().unwrap().iter().map(span).collect();
        Self { spans, raw: raw.clone() }
    }

    /// The one span of that service and name.
    #[track_caller]
    pub(crate) fn one(&self, service: &str, name: &str) -> &Span {
        let all: Vec<_> =
            self.spans.iter().filter(|span| span.service == service && span.name == name).collect();
        let [one] = all.as_slice() else { panic!("{service} {name}: {:#?}", self.names()) };
        one
    }

    /// Whether there is such a span.
    pub(crate) fn has(&self, service: &str, name: &str) -> bool {
        self.spans.iter().any(|span| span.service == service && span.name == name)
    }

    /// Service, name and parent's name of every span, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let parent = |span: &Span| {
            let parent = self.spans.iter().find(|other| Some(&other.id) == span.parent.as_ref());
            parent.map_or("-", |parent| parent.name.as_str()).to_owned()
        };
        let line = |span: &Span| format!("{} {} < {}", span.service, span.name, parent(span));
        let mut names: Vec<_> = self.spans.iter().map(line).collect();
        names.sort();
        names
    }
}

impl Jaeger {
    pub(crate) fn start() -> Self {
        let folder = Folder::new();
        let [query, query_grpc, grpc, http] = [port(), port(), port(), port()];
        let mut command = Command::new(found("find_jaeger"));
        command.arg("--config").arg(root().join("deploy/jaeger.yaml"));
        for (name, port) in [
            ("JAEGER_PORT", query),
            ("JAEGER_GRPC_PORT", query_grpc),
            ("OTLP_GRPC_PORT", grpc),
            ("OTLP_HTTP_PORT", http),
        ] {
            command.env(name, port.to_string());
        }
        let mut process = Process::start("jaeger", folder.path(), &mut command);
        process.wait_for(|| {
            Ask::get("/api/services").try_send(query).is_ok_and(|answer| answer.status == 200)
                && std::net::TcpStream::connect(("127.0.0.1", grpc)).is_ok()
        });
        Self { _process: process, grpc, http, query, _folder: folder }
    }

    /// Every trace that has a span of the service.
    pub(crate) fn traces(&self, service: &str) -> Vec<Trace> {
        let path = format!("/api/traces?service={service}&limit=500&lookback=1h");
        let answer = Ask::get(&path).send(self.query).json();
        let all = answer["data"].as_array().cloned().unwrap_or_default();
        all.iter().map(Trace::read).collect()
    }

    /// The trace of the service that `is`, once it is there whole.
    #[track_caller]
    pub(crate) fn trace(&self, service: &str, is: impl Fn(&Trace) -> bool) -> Trace {
        let start = Instant::now();
        loop {
            let all = self.traces(service);
            if let Some(found) = all.iter().find(|trace| is(trace)) {
                return found.clone();
            }
            let names: Vec<_> = all.iter().map(Trace::names).collect();
            assert!(start.elapsed() < Duration::from_mins(1), "not among {names:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
