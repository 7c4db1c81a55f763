//! Header names that are ours, in every spelling, and values that cannot inject anything.

use std::sync::Arc;

use crate::model::{Code, Request};

/// A name with more separators would have too many spellings to remove on every Check.
pub(super) const MAX_SEPARATORS: usize = 6;

/// Whether `name` is a lower-case header name (RFC 9110, section 5.1).
pub(super) fn is_token(name: &str) -> bool {
    let ok = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'^' | b'`' | b'|' | b'~');
    !name.is_empty() && name.bytes().all(ok)
}

/// Headers that belong to HTTP, to Envoy or to the transport: no decision sets them.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "host",
        "connection",
        "content-length",
        "content-type",
        "content-encoding",
        "cache-control",
        "expect",
        "forwarded",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "www-authenticate",
        "x-request-id",
    ];
    name.starts_with(':')
        || name.starts_with("x-envoy-")
        || name.starts_with("x-forwarded-")
        || NAMES.contains(&name)
}

pub(super) fn separators(name: &str) -> usize {
    name.bytes().filter(|b| matches!(b, b'-' | b'_')).count()
}

/// The name as a careless reader sees it: every separator is the same.
pub(super) fn fold(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let same = |b: &u8| if b.is_ascii_alphanumeric() { b.to_ascii_lowercase() } else { b'-' };
    name.iter().map(same)
}

/// One managed header with its other spellings.
#[derive(Debug, Clone)]
pub struct Managed {
    name: Arc<str>,
    /// Every combination of `-` and `_`, the name itself apart.
    others: Vec<Arc<str>>,
}

impl Managed {
    /// A declared name; its spellings are worked out once.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let count = separators(name).min(MAX_SEPARATORS);
        let spelling = |choice: usize| {
            let mut seen = 0;
            let swap = |c: char| {
                if c != '-' && c != '_' {
                    return c;
                }
                let underscore = choice >> seen & 1 == 1;
                seen += 1;
                if underscore { '_' } else { '-' }
            };
            name.chars().map(swap).collect::<String>()
        };
        let others = (0..1_usize << count).map(spelling).filter(|s| s != name);
        Self { name: name.into(), others: others.map(Arc::from).collect() }
    }

    /// The declared name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Every other combination of `-` and `_`.
    pub(super) fn others(&self) -> impl Iterator<Item = &Arc<str>> {
        self.others.iter()
    }

    /// Adds to `remove` what must go beside [`Managed::others`]: the name unless it `is_set`, and
    /// odd spellings that this request shows, such as `x.auth.context`.
    pub(super) fn removals(&self, is_set: bool, request: &Request, remove: &mut Vec<Arc<str>>) {
        if !is_set {
            remove.push(Arc::clone(&self.name));
        }
        for header in request.headers.fields() {
            let shown = header.name;
            let odd = shown.len() == self.name.len()
                && shown != self.name.as_bytes()
                && fold(shown).eq(fold(self.name.as_bytes()));
            if odd && !self.others.iter().any(|known| known.as_bytes() == shown) {
                remove.push(header.name().into());
            }
        }
    }
}

/// Makes `text` safe as a header value: `%` and all that is not printable ASCII is
/// percent-encoded as UTF-8, so that two values never become one; a control character is a
/// denial, since no sender of an honest value writes one.
///
/// # Errors
/// [`Code::HeaderValueInvalid`] for a control character.
pub(super) fn encode_value(text: &str) -> Result<String, Code> {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => return Err(Code::HeaderValueInvalid),
            '%' => out.push_str("%25"),
            ' '..='~' => out.push(c),
            _ => {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    out.push('%');
                    for nibble in [byte >> 4, byte & 0xf] {
                        let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                        out.push(digit.to_ascii_uppercase());
                    }
                }
            }
        }
    }
    Ok(out)
}

/// A list's elements; each must stay one element after joining by commas.
///
/// # Errors
/// [`Code::HeaderValueInvalid`] for an element that holds a comma, is empty or is not trimmed.
pub(super) fn join(elements: &[String]) -> Result<String, Code> {
    let mut out = String::new();
    for (index, element) in elements.iter().enumerate() {
        if element.contains(',') || element.is_empty() || element.trim() != element {
            return Err(Code::HeaderValueInvalid);
        }
        if index > 0 {
            out.push(',');
        }
        out.push_str(&encode_value(element)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Headers;

    #[test]
    fn s7_1_every_spelling_is_removed_and_a_set_name_is_not() {
        let managed = Managed::new("x-a-b");
        let request = Request {
            headers: Headers::from_pairs([("x.a.b", &b"1"[..]), ("x_a-b", b"2"), ("x-a-bb", b"3")]),
            ..Request::default()
        };
        let names = |is_set| {
            let mut remove = Vec::new();
            managed.removals(is_set, &request, &mut remove);
            remove.extend(managed.others().cloned());
            let mut names: Vec<_> = remove.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(names(true), ["x-a_b", "x.a.b", "x_a-b", "x_a_b"]);
        assert_eq!(names(false), ["x-a-b", "x-a_b", "x.a.b", "x_a-b", "x_a_b"]);
    }

    #[test]
    fn p11_a_value_cannot_inject_or_collide() {
        assert_eq!(encode_value("Al\r\nx-user-roles: admin"), Err(Code::HeaderValueInvalid));
        assert_eq!(encode_value("a\0b"), Err(Code::HeaderValueInvalid));
        assert_eq!(encode_value("a\u{85}b"), Err(Code::HeaderValueInvalid));
        assert_eq!(encode_value("Zoë 名").unwrap(), "Zo%C3%AB %E5%90%8D");
        assert_ne!(encode_value("ë"), encode_value("%C3%AB"));
        assert_eq!(encode_value("plain, text").unwrap(), "plain, text");
    }

    #[test]
    fn p11_a_comma_cannot_make_a_second_element() {
        let list =
            |elements: &[&str]| join(&elements.iter().map(|&e| e.into()).collect::<Vec<_>>());
        assert_eq!(list(&["a", "b"]).unwrap(), "a,b");
        assert_eq!(list(&["a,b"]), Err(Code::HeaderValueInvalid));
        assert_eq!(list(&["a", ""]), Err(Code::HeaderValueInvalid));
        assert_eq!(list(&[" a"]), Err(Code::HeaderValueInvalid));
        assert_eq!(list(&[]).unwrap(), "");
    }
}
