//! How a log line is written: JSON or for people, and always one line, whatever text is in it.
//!
//! Every character that a terminal or a reader of lines could take for more than text is written
//! as an escape: controls, line and paragraph separators, and those that change the direction of
//! writing. A value for people is quoted where it could be taken for another field. A line that
//! is written for a traced Check has its trace id.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::trace::{current_trace_id, hex_id};
use crate::clock::Clock;

/// The form of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    /// One JSON object a line.
    pub(super) json: bool,
    /// Colours, for a terminal.
    pub(super) ansi: bool,
}

/// A field's value: text, or what JSON writes without quotes.
enum Value {
    Text(String),
    Bare(String),
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Bare(value.to_string()));
    }
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text) | Value::Bare(text)) => self.message = text,
            (name, value) => self.others.push((name, value)),
        }
    }
}

/// Whether a character is more than text to somebody.
fn is_more_than_text(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text within the quotes of JSON, which serves people too.
fn escaped(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            // All of these lie in the basic plane.
            c if is_more_than_text(c) => write!(out, "\\u{:04x}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    Ok(())
}

fn quoted(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    escaped(text, out)?;
    out.write_char('"')
}

/// For people: as it is where nobody can take it for more than one word.
fn word(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let plain =
        |c: char| !c.is_whitespace() && !matches!(c, '"' | '\\' | '=') && !is_more_than_text(c);
    if !text.is_empty() && text.chars().all(plain) {
        out.write_str(text)
    } else {
        quoted(text, out)
    }
}

impl Lines {
    fn json(target: &str, level: Level, fields: &Fields, out: &mut Writer<'_>) -> fmt::Result {
        let time = Clock::system().now().rfc3339();
        write!(out, "{{\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":")?;
        quoted(&fields.message, out)?;
        for (name, value) in &fields.others {
            out.write_char(',')?;
            quoted(name, out)?;
            out.write_char(':')?;
            match value {
                Value::Text(text) => quoted(text, out)?,
                Value::Bare(text) => out.write_str(text)?,
            }
        }
        out.write_str(",\"target\":")?;
        quoted(target, out)?;
        out.write_str("}\n")
    }

    fn text(
        self,
        target: &str,
        level: Level,
        fields: &Fields,
        out: &mut Writer<'_>,
    ) -> fmt::Result {
        let time = Clock::system().now().rfc3339();
        let colour = match level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            _ => "2",
        };
        if self.ansi {
            write!(out, "{time} \x1b[{colour}m{level:>5}\x1b[0m {target}: ")?;
        } else {
            write!(out, "{time} {level:>5} {target}: ")?;
        }
        escaped(&fields.message, out)?;
        for (name, value) in &fields.others {
            write!(out, " {name}=")?;
            match value {
                Value::Text(text) | Value::Bare(text) => word(text, out)?,
            }
        }
        out.write_char('\n')
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let told = fields.others.iter().any(|(name, _)| *name == "trace_id");
        if let Some(id) = current_trace_id().filter(|_| !told) {
            fields.others.push(("trace_id", Value::Text(hex_id(id))));
        }
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        if self.json {
            Self::json(target, level, &fields, &mut out)
        } else {
            self.text(target, level, &fields, &mut out)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(json: bool, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let to = kept.clone();
        let lines = Lines { json, ansi: false };
        let subscriber =
            tracing_subscriber::fmt().event_format(lines).with_writer(move || to.clone());
        tracing::subscriber::with_default(subscriber.finish(), log);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    const HOSTILE: &str =
        "a\r\n{\"level\":\"ERROR\"}\u{1b}[31m\u{2028}b\u{85}\u{202e}\0\u{7f}\t\"\\";

    /// What some reader takes for the end of a line, or a terminal for an order.
    fn breaks(text: &str) -> bool {
        text.contains(['\r', '\u{1b}', '\u{2028}', '\u{85}', '\u{202e}', '\0', '\u{7f}', '\t'])
    }

    #[test]
    fn a_given_text_neither_breaks_nor_forges_a_line() {
        for json in [true, false] {
            let said = written(json, || {
                let error = std::io::Error::other(HOSTILE);
                tracing::warn!(text = HOSTILE, shown = %HOSTILE, debug = ?HOSTILE, %error, "a {HOSTILE}");
                tracing::info!(user = "x level=ERROR forged=1", n = 1, yes = true, "next");
            });
            let (first, second) = said.trim_end_matches('\n').split_once('\n').unwrap();
            assert!(!breaks(first) && !breaks(second), "{said:?}");
            if json {
                let line: serde_json::Value = serde_json::from_str(first).unwrap();
                assert_eq!((&line["text"], &line["shown"]), (&HOSTILE.into(), &HOSTILE.into()));
                assert_eq!((&line["level"], &line["error"]), (&"WARN".into(), &HOSTILE.into()));
                let line: serde_json::Value = serde_json::from_str(second).unwrap();
                assert_eq!((&line["n"], &line["yes"]), (&1.into(), &true.into()));
                assert_eq!(line["message"], "next");
            } else {
                assert!(
                    second.ends_with("next user=\"x level=ERROR forged=1\" n=1 yes=true"),
                    "{second}"
                );
            }
        }
    }
}
