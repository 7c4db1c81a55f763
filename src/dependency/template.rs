//! URLs with variables.

use std::borrow::Cow;

use ::url::Url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{InsecureUrl, UrlError, check_url};

/// All but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A URL with variables in path or query, such as `https://api.example.test/users/{sub}`.
/// A value is encoded as one segment, so that no value changes which resource is meant.
#[derive(Debug, Clone)]
pub struct UrlTemplate {
    text: Box<str>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(Box<str>),
    Variable(Box<str>),
}

/// What is wrong with a template or with a value for it. Holds no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Braces do not pair, or a variable has no name.
    #[error("has a brace without its pair or a variable without name")]
    Braces,
    /// A variable stands before the path.
    #[error("has a variable in scheme, host or port")]
    Place,
    /// A path segment is `.` or `..`, in some spelling.
    #[error("has a dot segment")]
    DotSegment,
    /// The URL may not be called.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// No value for this variable.
    #[error("has no value for `{0}`")]
    Missing(Box<str>),
    /// The value for this variable is empty, `.` or `..`.
    #[error("has a value for `{0}` that is no segment")]
    NoSegment(Box<str>),
}

impl UrlTemplate {
    /// Reads a template whose URL may be called (see [`check_url`]; `insecure` lists the
    /// template as written).
    ///
    /// # Errors
    /// If it is no template, or its URL may not be called.
    pub fn parse(text: &str, insecure: &[InsecureUrl]) -> Result<Self, TemplateError> {
        let parts = split(text)?;
        let after_scheme = text.find("://").map_or(0, |at| at + 3);
        let is_end = |c: char| matches!(c, '/' | '?' | '#');
        let authority = text.get(after_scheme..).and_then(|rest| rest.split(is_end).next());
        if authority.is_none_or(|authority| authority.contains('{')) || text.starts_with('{') {
            return Err(TemplateError::Place);
        }
        check_url(text, insecure)?;
        let template = Self { text: text.into(), parts };
        template.expand(|_| Some(Cow::Borrowed("x")))?;
        Ok(template)
    }

    /// The template as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Names of the variables, in order, repeated ones repeated.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// The URL with every variable replaced by `value` of its name.
    ///
    /// # Errors
    /// If a value is missing, empty, `.` or `..`, or makes a dot segment of the text beside it.
    pub fn expand<'v>(
        &self,
        mut value: impl FnMut(&str) -> Option<Cow<'v, str>>,
    ) -> Result<Url, TemplateError> {
        let mut text = String::with_capacity(self.text.len() + 32);
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Variable(name) => {
                    let value = value(name).ok_or_else(|| TemplateError::Missing(name.clone()))?;
                    if matches!(&*value, "" | "." | "..") {
                        return Err(TemplateError::NoSegment(name.clone()));
                    }
                    text.extend(utf8_percent_encode(&value, ENCODED));
                }
            }
        }
        if has_dot_segment(&text) {
            return Err(TemplateError::DotSegment);
        }
        Url::parse(&text).map_err(|_| TemplateError::Url(UrlError::Malformed))
    }
}

fn split(text: &str) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(TemplateError::Braces)?;
        if literal.contains('}') || name.is_empty() || name.contains('{') {
            return Err(TemplateError::Braces);
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        parts.push(Part::Variable(name.into()));
        rest = after;
    }
    if rest.contains('}') {
        return Err(TemplateError::Braces);
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    Ok(parts)
}

/// URL parsers resolve dot segments, spelled `%2e` too and after `\`, before anything is sent.
fn has_dot_segment(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\']).any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    })
}
