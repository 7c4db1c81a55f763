//! Declared query parameters: by exact name, percent-decoded once, `+` being a space.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::limits;
use super::target::cut;
use crate::model::{Code, Refusal};

/// A declared parameter.
#[derive(Debug)]
pub(super) struct Param {
    /// Its exact, decoded name.
    pub name: Box<str>,
    /// Several values make a list instead of a refusal.
    pub list: bool,
}

/// The values of each declared parameter, in the parameters' order; empty for one not given.
pub(super) type Values<'r> = Vec<Vec<Cow<'r, str>>>;

/// Reads the declared parameters out of a raw query. What is not declared is passed over.
///
/// A `;` separates parameters for some readers and not for others: refused where it would give
/// or cut a declared one.
pub(super) fn read<'r>(query: &'r str, params: &[Param]) -> Result<Values<'r>, Refusal> {
    let mut values: Values<'r> = vec![Vec::new(); params.len()];
    for pair in query.split('&') {
        let declared = declared(pair, params);
        if let Some((_, hidden)) = cut(pair, b';') {
            let gives = |piece: &str| self::declared(piece, params).is_some();
            if declared.is_some() || hidden.split(';').any(gives) {
                return Err(ambiguous("a `;` stands beside a declared parameter"));
            }
        }
        let Some((at, value)) = declared else { continue };
        let (Some(param), Some(given)) = (params.get(at), values.get_mut(at)) else { continue };
        if !param.list && !given.is_empty() {
            return Err(ambiguous("a declared query parameter is given twice"));
        }
        given.push(decode_value(value)?);
    }
    Ok(values)
}

fn declared<'r>(pair: &'r str, params: &[Param]) -> Option<(usize, &'r str)> {
    let (name, value) = cut(pair, b'=').unwrap_or((pair, ""));
    let name = decode_name(cut(name, b';').map_or(name, |(name, _)| name))?;
    Some((params.iter().position(|p| *p.name == *name)?, value))
}

/// The refusal of a parameter that reads in two ways.
pub(super) fn ambiguous(detail: &'static str) -> Refusal {
    Refusal::new(Code::AmbiguousParameter, detail)
}

/// A decoded name; none where it does not decode, for then it is the name of nothing declared.
pub(super) fn decode_name(raw: &str) -> Option<Cow<'_, str>> {
    decode(raw)
}

fn decode_value(raw: &str) -> Result<Cow<'_, str>, Refusal> {
    let invalid = "a declared query parameter is no percent-encoded UTF-8";
    let value = decode(raw).ok_or(Refusal::new(Code::AttributeInvalid, invalid))?;
    if value.len() > limits::STRING_BYTES {
        return Err(limits::too_large("a query parameter is too long"));
    }
    Ok(value)
}

fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.bytes().any(|b| matches!(b, b'%' | b'+')) {
        return Some(Cow::Borrowed(raw));
    }
    let hex = |escape: &str| {
        let mut bytes = escape.bytes();
        let mut digit = || bytes.next().is_some_and(|b| b.is_ascii_hexdigit());
        digit() && digit()
    };
    if !raw.split('%').skip(1).all(hex) {
        return None;
    }
    if !raw.contains('+') {
        return percent_decode_str(raw).decode_utf8().ok();
    }
    let spaced = raw.replace('+', " ");
    Some(Cow::Owned(percent_decode_str(&spaced).decode_utf8().ok()?.into_owned()))
}
