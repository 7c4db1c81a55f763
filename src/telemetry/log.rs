//! The process's log: JSON or human lines on standard error.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};

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

/// The log of the process, once it is started: its filter can be changed.
#[derive(Clone)]
pub struct LogHandle(Arc<Inner>);

type Set = dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync;

struct Inner {
    set: Box<Set>,
    filter: Mutex<String>,
}

impl std::fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogHandle({:?})", self.filter())
    }
}

/// Longest filter that is taken, in bytes.
const MAX_FILTER: usize = 1024;

impl LogHandle {
    /// The filter in force.
    #[must_use]
    pub fn filter(&self) -> String {
        self.0.filter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs by `wanted` from now on: a level, or directives `target=level` and levels, separated
    /// by commas. Returns the filter in force.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set(&self, wanted: &str) -> Result<String, String> {
        let (text, filter) = parse(wanted)?;
        let mut now = self.0.filter.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.set)(filter)?;
        now.clone_from(&text);
        Ok(text)
    }
}

fn parse(wanted: &str) -> Result<(String, EnvFilter), String> {
    let wanted = wanted.trim();
    if wanted.is_empty() || wanted.len() > MAX_FILTER || wanted.chars().any(char::is_control) {
        return Err("a filter is 1 to 1024 bytes of visible text".to_owned());
    }
    let level = |text: &str| LEVELS.into_iter().find(|l| l.as_str().eq_ignore_ascii_case(text));
    if let Some(level) = level(wanted) {
        let text = filter_of(level);
        return Ok((text.clone(), EnvFilter::new(text)));
    }
    // A bare word would be taken for the name of a target, and all of it logged.
    let off = |text: &str| text.eq_ignore_ascii_case("off");
    let bare = |text: &str| level(text).is_none() && !off(text) && !text.contains('=');
    if let Some(word) = wanted.split(',').map(str::trim).find(|part| bare(part)) {
        return Err(format!(
            "`{word}` is no level (error, warn, info, debug, trace), and no `target=level`"
        ));
    }
    let filter = EnvFilter::builder().parse(wanted).map_err(|error| error.to_string())?;
    Ok((wanted.to_owned(), filter))
}

const LEVELS: [LogLevel; 5] =
    [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

/// Libraries speak at `warn`; at `debug` and below their inner workings are wanted too.
fn filter_of(level: LogLevel) -> String {
    match level {
        LogLevel::Debug | LogLevel::Trace => level.as_str().to_owned(),
        _ => format!("warn,portcullis={}", level.as_str()),
    }
}

/// Starts logging. Standard output stays free for audit events and command output.
/// A second call in one process changes nothing.
pub fn init(config: &LogConfig) -> LogHandle {
    let filter = filter_of(config.level);
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let lines = Lines { json, ansi: std::io::stderr().is_terminal() };
    let builder = tracing_subscriber::fmt()
        .event_format(lines)
        .with_env_filter(EnvFilter::new(&filter))
        .with_writer(std::io::stderr)
        .with_filter_reloading();
    let handle = builder.reload_handle();
    let set = Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
    let started = builder.try_init();
    // A payload may quote request text; where it happened is enough to find it.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic");
    }));
    // An error means that a subscriber is there already: in tests, that is.
    drop(started);
    LogHandle(Arc::new(Inner { set, filter: Mutex::new(filter) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_taken_and_other_words_are_not() {
        for (wanted, filter) in [
            ("info", "warn,portcullis=info"),
            (" WARN ", "warn,portcullis=warn"),
            ("debug", "debug"),
            ("warn,portcullis::store=debug", "warn,portcullis::store=debug"),
            ("off", "off"),
        ] {
            assert_eq!(parse(wanted).map(|(text, _)| text).as_deref(), Ok(filter), "{wanted}");
        }
        let long = "a=info,".repeat(200);
        for wanted in ["", "loud", "info,loud", "portcullis=loud", "a=b=c=[", "in\nfo", &long] {
            assert!(parse(wanted).is_err(), "{wanted}");
        }
    }
}
