//! Path patterns of routes, and text made of their variables.

use std::borrow::Cow;

use super::target::{Segment, Target};

/// A parsed `path` or `path_prefix`.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// One entry a segment.
    pub parts: Vec<Part>,
    /// What may follow them.
    pub tail: Tail,
    names: Vec<(Box<str>, Var)>,
}

/// One segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Exactly this decoded text.
    Literal(Box<str>),
    /// Any one segment.
    Any,
}

/// What follows the segments of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    End,
    /// A final slash.
    Slash,
    /// Any number of segments, with or without a final slash.
    Rest,
}

/// Where a variable's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Var {
    /// The segment of that index.
    Segment(usize),
    /// All segments from that index on.
    Rest(usize),
}

impl Pattern {
    /// A pattern that matches every path.
    pub(super) fn everything() -> Self {
        Self { parts: Vec::new(), tail: Tail::Rest, names: Vec::new() }
    }

    /// Reads a `path` template; the error says what is wrong with it.
    pub(super) fn template(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix('/').ok_or("it does not start with `/`")?;
        let mut pattern = Self { parts: Vec::new(), tail: Tail::End, names: Vec::new() };
        let mut pieces = path.split('/').peekable();
        while let Some(piece) = pieces.next() {
            let last = pieces.peek().is_none();
            if last && piece.is_empty() {
                pattern.tail = Tail::Slash;
            } else if let Some(inner) = piece.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
                pattern.variable(inner, last)?;
            } else {
                pattern.parts.push(literal(piece)?);
            }
        }
        Ok(pattern)
    }

    /// Reads a `path_prefix`.
    pub(super) fn prefix(text: &str) -> Result<Self, String> {
        if text.contains(['{', '}']) {
            return Err("a prefix has no variables".to_owned());
        }
        let mut pattern = Self::template(text)?;
        if pattern.tail == Tail::Slash && !pattern.parts.is_empty() {
            return Err("a prefix is by whole segments and needs no final `/`".to_owned());
        }
        pattern.tail = Tail::Rest;
        Ok(pattern)
    }

    fn variable(&mut self, inner: &str, last: bool) -> Result<(), String> {
        let (name, var) = match inner.strip_prefix("**") {
            Some(name) => (name, Var::Rest(self.parts.len())),
            None => (inner, Var::Segment(self.parts.len())),
        };
        match var {
            Var::Rest(_) if !last => return Err(format!("`{{{inner}}}` is not at the end")),
            Var::Rest(_) => self.tail = Tail::Rest,
            Var::Segment(_) => self.parts.push(Part::Any),
        }
        if name.is_empty() && matches!(var, Var::Rest(_)) {
            return Ok(());
        }
        if !is_identifier(name) {
            return Err(format!("`{name}` is no name of a variable"));
        }
        if self.var(name).is_some() {
            return Err(format!("the variable `{name}` is there twice"));
        }
        self.names.push((name.into(), var));
        Ok(())
    }

    /// The variable called `name`.
    pub(super) fn var(&self, name: &str) -> Option<Var> {
        self.names.iter().find(|(known, _)| &**known == name).map(|(_, var)| *var)
    }

    /// The variables' names as a person may read them.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|(name, _)| format!("`{{{name}}}`")).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Whether every path that `other` matches is matched by this pattern too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let lengths = match self.tail {
            Tail::Rest => self.parts.len() <= other.parts.len(),
            tail => tail == other.tail && self.parts.len() == other.parts.len(),
        };
        let covers = |(mine, theirs): (&Part, &Part)| *mine == Part::Any || mine == theirs;
        lengths && self.parts.iter().zip(&other.parts).all(covers)
    }
}

fn literal(piece: &str) -> Result<Part, String> {
    if piece.contains(['{', '}', '*']) {
        return Err(format!("`{piece}` is neither text nor a whole `{{variable}}`"));
    }
    if piece.contains(['?', '#']) || piece.chars().any(|c| c.is_control() || c == ' ') {
        return Err(format!("`{piece}` holds a character that no path holds"));
    }
    let segment = Segment::decode(piece).map_err(|refusal| refusal.detail.to_owned())?;
    if segment.encoded_slash || segment.semicolon {
        return Err(format!("`{piece}` holds an encoded slash or a semicolon"));
    }
    Ok(Part::Literal(segment.text.into()))
}

/// Whether `name` may name a variable or an attribute.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The value of a path variable. The rest's segments are joined by `/`, a slash inside one being
/// `%2F`; no segment at all is no value.
pub(super) fn value<'t>(var: Var, target: &'t Target<'_>) -> Option<Cow<'t, str>> {
    match var {
        Var::Segment(index) => target.segments.get(index).map(|s| Cow::Borrowed(&**s)),
        Var::Rest(from) => match target.segments.get(from..)? {
            [] => None,
            [one] => Some(visible(one)),
            many => {
                let parts: Vec<_> = many.iter().map(|s| visible(s)).collect();
                Some(Cow::Owned(parts.join("/")))
            }
        },
    }
}

/// A segment as it stands in a path: a slash inside it stays `%2F`, so that one path never reads
/// as another.
pub(super) fn visible(segment: &str) -> Cow<'_, str> {
    if segment.contains('/') {
        return Cow::Owned(segment.replace('/', "%2F"));
    }
    Cow::Borrowed(segment)
}

/// Text with path variables.
#[derive(Debug, Clone)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone)]
enum Piece {
    Text(Box<str>),
    Var(Var),
}

impl Template {
    /// Reads `text`, whose variables are those of `pattern`.
    pub(super) fn parse(text: &str, pattern: &Pattern) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (plain, after) = match rest.split_once('{') {
                Some((plain, after)) => (plain, Some(after)),
                None => (rest, None),
            };
            if plain.contains('}') {
                return Err("a `}` has no `{`".to_owned());
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(plain.into()));
            }
            let Some(after) = after else { break };
            let (name, tail) = after.split_once('}').ok_or("a `{` has no `}`")?;
            let var = pattern.var(name).ok_or_else(|| {
                format!("the path has no variable `{name}`; it has {}", pattern.names())
            })?;
            pieces.push(Piece::Var(var));
            rest = tail;
        }
        if pieces.is_empty() {
            return Err("it is empty".to_owned());
        }
        Ok(Self(pieces))
    }

    /// The text for `target`; none where a variable has no value.
    pub(super) fn fill(&self, target: &Target<'_>) -> Option<Box<str>> {
        if let [Piece::Text(text)] = self.0.as_slice() {
            return Some(text.clone());
        }
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Var(var) => out.push_str(&value(*var, target)?),
            }
        }
        Some(out.into())
    }
}
