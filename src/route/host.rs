//! The host: one value, lower-cased, without port and final dot.

use std::borrow::Cow;

use crate::model::{Code, Refusal, Request};

const LONGEST: usize = 253;

/// The request's host in its one spelling. Where the raw header fields repeat the host, they must
/// agree with it.
pub(super) fn canonical(request: &Request) -> Result<Cow<'_, str>, Refusal> {
    let host = parse(&request.host)?;
    for field in request.headers.fields() {
        if matches!(field.name, b":authority" | b"host") && parse(field.value)? != host {
            return Err(Refusal::new(Code::HostInvalid, "the request names two hosts"));
        }
    }
    Ok(host)
}

fn parse(raw: &[u8]) -> Result<Cow<'_, str>, Refusal> {
    let invalid = Refusal::new(Code::HostInvalid, "the host is not a host name with optional port");
    let text = std::str::from_utf8(raw).map_err(|_| invalid)?;
    let name = without_port(text).ok_or(invalid)?;
    if !(is_name(name) || is_bracketed(name)) {
        return Err(invalid);
    }
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        return Ok(Cow::Owned(name.to_ascii_lowercase()));
    }
    Ok(Cow::Borrowed(name))
}

fn without_port(text: &str) -> Option<&str> {
    let after_bracket = text.rfind(']').unwrap_or(0);
    let name = match text.rfind(':').filter(|colon| *colon > after_bracket) {
        None => text,
        Some(colon) => {
            let (name, port) = text.split_at_checked(colon)?;
            let digits = port.strip_prefix(':')?;
            let number = digits.bytes().all(|b| b.is_ascii_digit());
            number.then(|| digits.parse::<u16>().ok()).flatten()?;
            name
        }
    };
    Some(name.strip_suffix('.').unwrap_or(name))
}

/// Whether `name` is made of labels of letters, digits, `-` and `_`, in any case.
pub(super) fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.len() <= LONGEST && name.split('.').all(label)
}

/// Whether `name` is an IPv6 address in brackets.
pub(super) fn is_bracketed(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}
