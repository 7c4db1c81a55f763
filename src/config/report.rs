//! Everything that is wrong with a configuration, printed the way a compiler prints it.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// In the configuration file; line and column count from 1, the column in characters.
    File {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// In the environment variable of this name.
    Environment(Arc<str>),
}

impl Origin {
    /// The first character of the file.
    pub const START: Self = Self::File { line: 1, column: 1 };
}

/// One thing that is wrong, with the place where it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where; nothing where the file as a whole is at fault (it is missing, for example).
    pub origin: Option<Origin>,
    /// JSON pointer to the value; empty for the whole file.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead; empty where the message says it all.
    pub fix: String,
    /// What is at fault was left out, and what is around it can be looked at without it.
    pub(crate) left_out: bool,
}

impl Fault {
    /// A fault at `origin` in the value at `pointer`.
    pub(crate) fn new(
        origin: Origin,
        pointer: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            origin: Some(origin),
            pointer: pointer.into(),
            message: message.into(),
            fix: fix.into(),
            left_out: false,
        }
    }

    /// The same fault, of something that is left out from here on.
    pub(crate) fn left_out(mut self) -> Self {
        self.left_out = true;
        self
    }
}

/// All that is wrong with one configuration, in the order of the file's lines; what the
/// environment brought follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    file: PathBuf,
    faults: Vec<Fault>,
}

impl Report {
    /// Sorts `faults` by their place and drops what was found twice.
    #[must_use]
    pub fn new(file: &Path, mut faults: Vec<Fault>) -> Self {
        faults.sort();
        faults.dedup();
        Self { file: file.to_owned(), faults }
    }

    /// A report about the file as a whole.
    pub(crate) fn whole(file: &Path, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let fault = Fault {
            origin: None,
            pointer: String::new(),
            message: message.into(),
            fix: fix.into(),
            left_out: false,
        };
        Self { file: file.to_owned(), faults: vec![fault] }
    }

    /// Each fault, in the order in which they are printed.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl fmt::Display for Report {
    /// One line for each fault: `FILE:LINE:COLUMN: KEY: what is wrong — what to write instead`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match &fault.origin {
                None => write!(f, "{file}: ")?,
                Some(Origin::File { line, column }) => write!(f, "{file}:{line}:{column}: ")?,
                Some(Origin::Environment(name)) => write!(f, "environment {name}: ")?,
            }
            if !fault.pointer.is_empty() {
                write!(f, "{}: ", key_path(&fault.pointer))?;
            }
            f.write_str(&one_line(&fault.message))?;
            if !fault.fix.is_empty() {
                write!(f, " — {}", one_line(&fault.fix))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// A message may quote what somebody wrote: it stays on its line and moves no cursor.
fn one_line(text: &str) -> String {
    text.trim()
        .chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// `/routes/2/match/path` as people write it: `routes[2].match.path`.
#[must_use]
pub fn key_path(pointer: &str) -> String {
    let mut path = String::new();
    for segment in segments(pointer) {
        if segment.bytes().all(|b| b.is_ascii_digit()) && !segment.is_empty() {
            let _ = write!(path, "[{segment}]");
        } else if segment.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
            && !segment.is_empty()
        {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&segment);
        } else {
            let _ = write!(path, "[{segment:?}]");
        }
    }
    path
}

/// The decoded segments of a JSON pointer (RFC 6901 section 4).
pub(crate) fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|raw| raw.replace("~1", "/").replace("~0", "~"))
}

/// `pointer` with one more segment.
pub(crate) fn child(pointer: &str, segment: &str) -> String {
    format!("{pointer}/{}", segment.replace('~', "~0").replace('/', "~1"))
}
