//! The request target: read in exactly one way, or refused.
//!
//! The backend gets the raw target. A target that two readers could take for different paths is
//! therefore refused; every other is split and percent-decoded once, in full.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::normalise;
use crate::model::{Code, Refusal};

/// A target that reads in one way only.
#[derive(Debug)]
pub(super) struct Target<'r> {
    /// The decoded segments, without the empty one after a final `/`.
    pub segments: Vec<Cow<'r, str>>,
    /// The path ends in `/`; true for `/` itself.
    pub slash: bool,
    /// The path as sent, where decoding changes nothing.
    pub plain: Option<&'r str>,
    /// The raw query, without `?`; absent where the target has none.
    pub query: Option<&'r str>,
    /// A segment holds `%2F`, which the matching route must accept.
    pub encoded_slash: bool,
    /// A segment holds `;`, which the matching route must accept.
    pub semicolon: bool,
}

fn refuse<T>(detail: &'static str) -> Result<T, Refusal> {
    Err(Refusal::new(Code::PathNotCanonical, detail))
}

/// Reads a raw target. With `trust` dot segments, empty segments and escaped slashes are resolved
/// as Envoy does it before they are looked at; without, they are refused.
pub(super) fn parse(raw: &[u8], trust: bool) -> Result<Target<'_>, Refusal> {
    if raw.first() != Some(&b'/') {
        return refuse("the target does not start with a slash");
    }
    if raw.contains(&b'#') {
        return refuse("the target holds a fragment");
    }
    if !raw.iter().all(u8::is_ascii_graphic) {
        return refuse("the target holds a raw byte that is no visible ASCII character");
    }
    let Ok(text) = std::str::from_utf8(raw) else {
        return refuse("the target is not ASCII");
    };
    let (path, query) = match cut(text, b'?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let mut target = Target {
        segments: Vec::new(),
        slash: false,
        plain: None,
        query,
        encoded_slash: false,
        semicolon: false,
    };
    if trust && normalise::is_needed(path) {
        let path = normalise::as_envoy(path);
        for segment in split(&path, &mut target)? {
            target.segments.push(Cow::Owned(segment.into_owned()));
        }
    } else {
        target.segments = split(path, &mut target)?;
        target.plain = (!path.contains('%')).then_some(path);
    }
    Ok(target)
}

/// What stands before and after the first `at`, which is ASCII. These texts are short: a plain
/// loop is done before a search for any character has begun.
pub(super) fn cut(text: &str, at: u8) -> Option<(&str, &str)> {
    let place = text.bytes().position(|b| b == at)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

fn split<'p>(path: &'p str, target: &mut Target<'_>) -> Result<Vec<Cow<'p, str>>, Refusal> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let body = path.strip_suffix('/').unwrap_or(path);
    target.slash = body.len() < path.len() || path.is_empty();
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let mut segments = Vec::with_capacity(1 + body.bytes().filter(|b| *b == b'/').count());
    for piece in body.split('/') {
        let segment = Segment::decode(piece)?;
        target.encoded_slash |= segment.encoded_slash;
        target.semicolon |= segment.semicolon;
        segments.push(segment.text);
    }
    Ok(segments)
}

/// One decoded segment with the spellings that a route must accept.
pub(super) struct Segment<'p> {
    pub text: Cow<'p, str>,
    pub encoded_slash: bool,
    pub semicolon: bool,
}

impl<'p> Segment<'p> {
    /// Decodes what stands between two slashes of a raw path.
    pub(super) fn decode(piece: &'p str) -> Result<Self, Refusal> {
        let plain = |b: u8| !matches!(b, b'%' | b'\\' | b';' | b'/');
        if !matches!(piece, "" | "." | "..") && piece.bytes().fold(true, |all, b| all & plain(b)) {
            let text = Cow::Borrowed(piece);
            return Ok(Self { text, encoded_slash: false, semicolon: false });
        }
        let text = decode_once(piece)?;
        if text.contains('\\') {
            return refuse("the path holds a backslash");
        }
        let (encoded_slash, semicolon) = (text.contains('/'), text.contains(';'));
        // A reader that decodes `%2F` or drops what follows `;` sees these parts.
        for part in text.split('/') {
            match part.split(';').next().unwrap_or_default() {
                "" => return refuse("the path holds an empty segment"),
                "." | ".." => return refuse("the path holds a dot segment"),
                _ => {}
            }
        }
        Ok(Self { text, encoded_slash, semicolon })
    }
}

fn decode_once(piece: &str) -> Result<Cow<'_, str>, Refusal> {
    if !piece.contains('%') {
        return Ok(Cow::Borrowed(piece));
    }
    let escapes = piece.split('%').skip(1);
    if !escapes.clone().all(starts_with_two_hex) {
        return refuse("the path holds a percent sign without two hex digits");
    }
    let Ok(text) = percent_decode_str(piece).decode_utf8() else {
        return refuse("the decoded path is not UTF-8");
    };
    if text.chars().any(char::is_control) {
        return refuse("the path holds a control character");
    }
    if text.split('%').skip(1).any(starts_with_two_hex) {
        return refuse("the path is encoded twice");
    }
    Ok(text)
}

fn starts_with_two_hex(text: &str) -> bool {
    let mut bytes = text.bytes();
    let mut hex = || bytes.next().is_some_and(|b| b.is_ascii_hexdigit());
    hex() && hex()
}
