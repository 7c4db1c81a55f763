//! The process's log: JSON or human lines on standard error.

use std::io::IsTerminal as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::lines::Lines;

/// What is logged and how.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Form of a line.
    pub format: LogFormat,
    /// Least level that is logged. Nothing is logged per request at `info`.
    pub level: LogLevel,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Human lines on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// Human lines.
    Text,
}

/// Least level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Faults that need somebody.
    Error,
    /// What will need somebody if it goes on.
    Warn,
    /// Start, stop, and each change of a dependency's state.
    #[default]
    Info,
    /// Detail for finding a fault; may log a line per request.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The name as tracing knows it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Starts logging. Standard output stays free for audit events and command output.
/// A second call in one process changes nothing.
pub fn init(config: &LogConfig) {
    // Libraries speak at `warn`; at `debug` and below their inner workings are wanted too.
    let level = config.level.as_str();
    let filter = match config.level {
        LogLevel::Debug | LogLevel::Trace => level.to_owned(),
        _ => format!("warn,portcullis={level}"),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr);
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let lines = Lines { json, ansi: std::io::stderr().is_terminal() };
    let started = builder.event_format(lines).try_init();
    // A payload may quote request text; where it happened is enough to find it.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic");
    }));
    // An error means that a subscriber is there already: in tests, that is.
    drop(started);
}
