//! The standard `OTEL_…` variables, as overrides of the section `tracing`. What `PORTCULLIS__…`
//! says of the same key goes first; an empty variable is as one that is not set.

use std::ffi::OsString;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// A variable as the key that it sets.
pub(super) struct Standard {
    /// The variable.
    pub(super) name: &'static str,
    /// The key in `tracing`, as `PORTCULLIS__TRACING__…` would have it.
    pub(super) key: &'static str,
    /// The value, as `PORTCULLIS__TRACING__…` would have it.
    pub(super) text: String,
}

/// Whether the name is one of those that are looked at.
pub(super) fn is_standard(name: &str) -> bool {
    name.starts_with("OTEL_")
}

/// What the variables in `all` set.
pub(super) fn translate(all: &[(OsString, OsString)]) -> Vec<Standard> {
    let vars = Variables(all);
    let mut found = Vec::new();
    let mut set = |key: &'static str, value: Option<(&'static str, String)>| {
        found.extend(value.map(|(name, text)| Standard { name, key, text }));
    };
    set("ENABLED", enabled(&vars));
    let whole = vars.first(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]);
    set("ENDPOINT", whole.or_else(|| vars.first(&["OTEL_EXPORTER_OTLP_ENDPOINT"]).map(whole_url)));
    for (key, names) in [
        ("PROTOCOL", ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]),
        ("HEADERS", ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"]),
        ("CA_FILE", ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"]),
    ] {
        set(key, vars.first(&names));
    }
    let timeouts = [
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_BSP_EXPORT_TIMEOUT",
    ];
    set("TIMEOUT", vars.first(&timeouts).map(millis));
    set("DELAY", vars.first(&["OTEL_BSP_SCHEDULE_DELAY"]).map(millis));
    set("SAMPLER", vars.first(&["OTEL_TRACES_SAMPLER"]));
    set("RATIO", vars.first(&["OTEL_TRACES_SAMPLER_ARG"]));
    set("QUEUE", vars.first(&["OTEL_BSP_MAX_QUEUE_SIZE"]));
    set("BATCH", vars.first(&["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"]));
    set("PROPAGATION", propagators(&vars));
    let (mut service, attributes) = resource(&vars);
    service = vars.first(&["OTEL_SERVICE_NAME"]).or(service);
    set("SERVICE_NAME", service);
    set("RESOURCE_ATTRIBUTES", attributes);
    found
}

struct Variables<'a>(&'a [(OsString, OsString)]);

impl Variables<'_> {
    /// The first of these that says something.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|wanted| {
            let found = self.0.iter().find(|(name, _)| name == wanted)?;
            let text = found.1.to_string_lossy().trim().to_owned();
            (!text.is_empty()).then_some((*wanted, text))
        })
    }
}

fn enabled(vars: &Variables<'_>) -> Option<(&'static str, String)> {
    let disabled = vars.first(&["OTEL_SDK_DISABLED"]);
    let disabled = disabled.filter(|(_, text)| text.eq_ignore_ascii_case("true"));
    let none = vars.first(&["OTEL_TRACES_EXPORTER"]).filter(|(_, text)| text == "none");
    disabled.or(none).map(|(name, _)| (name, "false".to_owned()))
}

/// The base URL of all signals: a path of its own goes before that of traces.
fn whole_url((name, url): (&'static str, String)) -> (&'static str, String) {
    let path =
        url.split_once("://").and_then(|(_, rest)| rest.trim_end_matches('/').split_once('/'));
    let whole = match path {
        Some(_) => format!("{}/v1/traces", url.trim_end_matches('/')),
        None => url,
    };
    (name, whole)
}

/// A number of milliseconds.
fn millis((name, text): (&'static str, String)) -> (&'static str, String) {
    (name, format!("{text}ms"))
}

fn propagators(vars: &Variables<'_>) -> Option<(&'static str, String)> {
    let (name, text) = vars.first(&["OTEL_PROPAGATORS"])?;
    let mut known: Vec<&str> = Vec::new();
    for one in text.split(',').map(str::trim) {
        let ours = match one {
            "tracecontext" => "w3c",
            "b3" | "b3multi" => "b3",
            _ => continue,
        };
        if !known.contains(&ours) {
            known.push(ours);
        }
    }
    (!known.is_empty()).then(|| (name, known.join(",")))
}

/// A variable's name with its value.
type Found = Option<(&'static str, String)>;

/// The service's name among the resource's attributes, and the others as JSON.
fn resource(vars: &Variables<'_>) -> (Found, Found) {
    let Some((name, text)) = vars.first(&["OTEL_RESOURCE_ATTRIBUTES"]) else { return (None, None) };
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let mut service = None;
    let mut others = Map::new();
    for (key, value) in pairs {
        let value = percent_decode_str(value.trim()).decode_utf8_lossy().into_owned();
        match key.trim() {
            "service.name" => service = Some((name, value)),
            key => {
                others.insert(key.to_owned(), Value::String(value));
            }
        }
    }
    let others = (!others.is_empty()).then(|| (name, Value::Object(others).to_string()));
    (service, others)
}
