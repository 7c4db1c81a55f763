//! JSON that two readers cannot read differently.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::de::IgnoredAny;

/// Why a text is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotStrict {
    /// It is not one JSON value in UTF-8, or an object has a member twice.
    #[error("not JSON, or with a member twice")]
    Broken,
    /// Objects and lists nest deeper than allowed.
    #[error("nested too deeply")]
    TooDeep,
}

/// Members by which `serde_json` hands numbers and raw text to itself: an object that has one is
/// no object to it, and one to everybody else.
const PRIVATE: &str = "$serde_json::private::";

/// `json` as text, if it is one JSON value (RFC 8259) without duplicate members at any depth,
/// whose objects and lists nest at most `depth` levels deep.
///
/// Reads the text itself: what a parser makes of it (how it hands over numbers, say) depends on
/// features that others choose.
///
/// # Errors
/// What is wrong with it; a text that is broken and too deep is broken.
pub fn strict_json(json: &[u8], depth: usize) -> Result<&str, NotStrict> {
    let text = std::str::from_utf8(json).map_err(|_| NotStrict::Broken)?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| NotStrict::Broken)?;
    // The names of each open object; none for a list.
    let mut open: Vec<Option<HashSet<Cow<'_, str>>>> = Vec::new();
    let mut rest = text;
    while let Some(token) = rest.find(['"', '{', '[', '}', ']']).and_then(|at| rest.get(at..)) {
        let length = match token.as_bytes() {
            [b'"', ..] => string_length(token),
            [first @ (b'{' | b'['), ..] => {
                if open.len() >= depth {
                    return Err(NotStrict::TooDeep);
                }
                open.push((*first == b'{').then(HashSet::new));
                1
            }
            _ => {
                open.pop();
                1
            }
        };
        let (token, after) = token.split_at_checked(length).ok_or(NotStrict::Broken)?;
        if token.starts_with('"') {
            let content = decoded(token)?;
            let is_name = after.trim_start_matches([' ', '\t', '\n', '\r']).starts_with(':');
            if is_name && !open.last_mut().is_some_and(|names| is_new(names.as_mut(), content)) {
                return Err(NotStrict::Broken);
            }
        }
        rest = after;
    }
    Ok(text)
}

fn is_new<'t>(names: Option<&mut HashSet<Cow<'t, str>>>, name: Cow<'t, str>) -> bool {
    !name.starts_with(PRIVATE) && names.is_some_and(|names| names.insert(name))
}

/// Bytes of the string that `text` begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let ends = |byte: u8| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    };
    text.bytes().skip(1).position(ends).map_or(usize::MAX, |at| at + 2)
}

fn decoded(token: &str) -> Result<Cow<'_, str>, NotStrict> {
    if token.contains('\\') {
        return serde_json::from_str(token).map(Cow::Owned).map_err(|_| NotStrict::Broken);
    }
    Ok(Cow::Borrowed(token.trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH: usize = 16;

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":{"b":[{"c":1,"c":2}]}}"#,
            r#"{"a":1,"\u0061":1}"#,
            "{\"a\\\"\" : 1 , \"a\\\"\"\n:2}",
            r#"{"":1,"":2}"#,
            r#"{"a":1} {}"#,
            r#"{"a":1}x"#,
            "",
            "{",
            "\u{feff}{}",
            "{\"a\":\"\u{0}\"}",
            r#"{"a":"\ud800"}"#,
            r#"["\ud800"]"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"a":[{"\u0024serde_json::private::RawValue":"[]"}]}"#,
            "{\"a\":01}",
        ] {
            assert_eq!(strict_json(text.as_bytes(), DEPTH), Err(NotStrict::Broken), "{text}");
        }
        assert_eq!(strict_json(b"{\"a\":\"\xff\"}", DEPTH), Err(NotStrict::Broken));
    }

    #[test]
    fn what_reads_one_way_is_taken_as_it_is() {
        for text in [
            r#"{"a":[{"b":1},{"b":2}],"b":-1.5,"c":null,"d":true,"e":"\n{\"a\":[","f":{"b":{}}}"#,
            r#"{"a":"a","b":"a:","c":":","a:":1}"#,
            " [ \"a\" , \"a\" ] ",
            r#"["$serde_json::private::Number"]"#,
            "12345678901234567890123.10",
            "\"€ \\\\\"",
            "null",
        ] {
            assert_eq!(strict_json(text.as_bytes(), DEPTH), Ok(text));
        }
    }

    #[test]
    fn nesting_is_counted_in_objects_and_lists() {
        let nested = |levels: usize, inner: &str| {
            format!("{{\"a\":{}{inner}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
        };
        for inner in ["", "1.5", "\"[[[\"", "null"] {
            let check = |levels| strict_json(nested(levels, inner).as_bytes(), DEPTH).err();
            assert_eq!(check(DEPTH), None, "a number takes no level: {inner}");
            assert_eq!(check(DEPTH + 1), Some(NotStrict::TooDeep), "{inner}");
            assert_eq!(check(100_000), Some(NotStrict::TooDeep), "{inner}");
        }
    }
}
