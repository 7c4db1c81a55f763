//! Where a Check stands in its caller's trace: W3C Trace Context and B3, read and written.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::config::Propagation;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const B3: HeaderName = HeaderName::from_static("b3");
/// Longest `tracestate` that is passed on; a longer one is left out whole.
const MAX_STATE: usize = 512;

/// The span that the caller says it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Never zero.
    pub trace_id: u128,
    /// Never zero.
    pub span_id: u64,
    /// What the caller decided about sampling.
    pub sampled: bool,
    /// `tracestate`, as it came.
    pub state: Option<HeaderValue>,
}

/// Header fields by name, whoever holds them.
pub trait Fields {
    /// The value of `name`; none where the field is not there, or there twice.
    fn one(&self, name: &'static str) -> Option<&[u8]>;
    /// Every value of `name` joined by commas, as RFC 9110 has it.
    fn joined(&self, name: &'static str) -> Option<Vec<u8>>;
}

impl Fields for HeaderMap {
    fn one(&self, name: &'static str) -> Option<&[u8]> {
        let mut all = self.get_all(name).iter();
        let first = all.next()?;
        all.next().is_none().then(|| first.as_bytes())
    }

    fn joined(&self, name: &'static str) -> Option<Vec<u8>> {
        joined(self.get_all(name).iter().map(HeaderValue::as_bytes))
    }
}

impl Fields for crate::model::Headers {
    fn one(&self, name: &'static str) -> Option<&[u8]> {
        let mut all = self.all(name);
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    fn joined(&self, name: &'static str) -> Option<Vec<u8>> {
        joined(self.all(name))
    }
}

fn joined<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let all: Vec<&[u8]> = values.collect();
    (!all.is_empty()).then(|| all.join(&b','))
}

/// The parent that `fields` name in the first of `formats` that they use. What is malformed is as
/// if it were not there.
#[must_use]
pub fn extract(fields: &impl Fields, formats: &[Propagation]) -> Option<Parent> {
    formats.iter().find_map(|format| match format {
        Propagation::W3c => w3c(fields),
        Propagation::B3 => b3(fields),
    })
}

/// `traceparent` (W3C Trace Context, section 3.2): version, trace id, parent id, flags.
fn w3c(fields: &impl Fields) -> Option<Parent> {
    let text = fields.one("traceparent")?;
    let head = text.get(..55)?;
    let version = hex(head.get(..2)?)?;
    // Of a version that is not known, what is known of it is read; `ff` is none.
    let fits = match version {
        0 => text.len() == 55,
        255 => false,
        _ => text.get(55).is_none_or(|b| *b == b'-'),
    };
    let dashes = [2, 35, 52].iter().all(|at| head.get(*at) == Some(&b'-'));
    if !fits || !dashes {
        return None;
    }
    let flags = hex(head.get(53..55)?)?;
    let (trace_id, span_id) = ids(head.get(3..35)?, head.get(36..52)?)?;
    Some(Parent { trace_id, span_id, sampled: flags & 1 == 1, state: state(fields) })
}

fn state(fields: &impl Fields) -> Option<HeaderValue> {
    let whole = fields.joined("tracestate")?;
    let sound = whole.len() <= MAX_STATE && whole.iter().all(|b| matches!(b, b' '..=b'~'));
    if sound { HeaderValue::from_bytes(&whole).ok() } else { None }
}

/// `b3` (one header: `trace-span-sampled`), or `x-b3-traceid` and its companions.
fn b3(fields: &impl Fields) -> Option<Parent> {
    let (trace, span, sampled) = if let Some(whole) = fields.one("b3") {
        let mut parts = whole.split(|b| *b == b'-');
        (parts.next()?, parts.next()?, parts.next().unwrap_or_default())
    } else {
        let debug = fields.one("x-b3-flags") == Some(b"1");
        let sampled = fields.one("x-b3-sampled").unwrap_or_default();
        let sampled = if debug { &b"d"[..] } else { sampled };
        (fields.one("x-b3-traceid")?, fields.one("x-b3-spanid")?, sampled)
    };
    // 64-bit trace ids are allowed.
    if !matches!(trace.len(), 16 | 32) {
        return None;
    }
    let (trace_id, span_id) = ids(trace, span)?;
    let sampled = matches!(sampled, b"1" | b"d" | b"true");
    Some(Parent { trace_id, span_id, sampled, state: None })
}

fn ids(trace: &[u8], span: &[u8]) -> Option<(u128, u64)> {
    let trace_id = hex(trace).filter(|id| *id != 0)?;
    let span_id = hex(span.get(..16)?).filter(|id| *id != 0 && span.len() == 16)?;
    Some((trace_id, u64::try_from(span_id).ok()?))
}

/// Lower-case hexadecimal digits alone, 32 at most.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

/// Writes the span into the header fields of a request that is made within it.
pub(super) fn inject(
    headers: &mut HeaderMap,
    formats: &[Propagation],
    (trace_id, span_id, sampled): (u128, u64, bool),
    state: Option<&HeaderValue>,
) {
    let flag = u8::from(sampled);
    let mut set = |name: HeaderName, text: String| {
        // Digits and dashes are always a value.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    for format in formats {
        match format {
            Propagation::W3c => {
                set(TRACEPARENT, format!("00-{trace_id:032x}-{span_id:016x}-{flag:02x}"));
            }
            Propagation::B3 => set(B3, format!("{trace_id:032x}-{span_id:016x}-{flag}")),
        }
    }
    if let Some(state) = state.filter(|_| formats.contains(&Propagation::W3c)) {
        headers.insert(TRACESTATE, state.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn fields(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    fn read(pairs: &[(&'static str, &str)]) -> Option<Parent> {
        extract(&fields(pairs), &[Propagation::W3c, Propagation::B3])
    }

    #[test]
    fn what_is_well_formed_is_read_and_comes_back() {
        let parent = read(&[("traceparent", GOOD), ("tracestate", "a=1"), ("tracestate", "b=2")]);
        let parent = parent.unwrap();
        assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert!(parent.sampled);
        assert_eq!(parent.state.as_ref().unwrap(), "a=1,b=2");
        let mut out = HeaderMap::new();
        let ids = (parent.trace_id, parent.span_id, parent.sampled);
        inject(&mut out, &[Propagation::W3c, Propagation::B3], ids, parent.state.as_ref());
        assert_eq!(out["traceparent"], GOOD);
        assert_eq!(out["tracestate"], "a=1,b=2");
        assert_eq!(read(&[("b3", out["b3"].to_str().unwrap())]).unwrap().trace_id, parent.trace_id);
        assert!(!read(&[("traceparent", &GOOD.replace("-01", "-00"))]).unwrap().sampled);
        // A later version with more behind it.
        assert!(
            read(&[("traceparent", &format!("cc{}-more", GOOD.trim_start_matches("00")))])
                .is_some()
        );
        let three = [("x-b3-traceid", "8448eb211c80319c"), ("x-b3-spanid", "b7ad6b7169203331")];
        assert!(!read(&three).unwrap().sampled);
        assert!(read(&[three[0], three[1], ("x-b3-sampled", "1")]).unwrap().sampled);
    }

    #[test]
    fn what_is_malformed_is_as_if_it_were_not_there() {
        let zero_trace = GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = GOOD.replace("b7ad6b7169203331", &"0".repeat(16));
        let upper = GOOD.to_uppercase();
        let ff = format!("ff{}", GOOD.trim_start_matches("00"));
        let more = format!("{GOOD}-01");
        let long = "a".repeat(70_000);
        let other = GOOD.replace('-', "_");
        for text in ["", "00", "x", &zero_trace, &zero_span, &upper, &ff, &more, &long, &other, "ø"]
        {
            assert_eq!(read(&[("traceparent", text)]), None, "{text}");
        }
        assert_eq!(read(&[("traceparent", GOOD), ("traceparent", GOOD)]), None);
        for text in ["1", "0", "1-2-1", &"f".repeat(70), "8448eb211c80319c-b7ad6b7169203331ab-1"] {
            assert_eq!(read(&[("b3", text)]), None, "{text}");
        }
        let state = "x=".to_owned() + &"y".repeat(600);
        for state in [state.as_str(), "a=\u{f8}"] {
            assert_eq!(read(&[("traceparent", GOOD), ("tracestate", state)]).unwrap().state, None);
        }
    }
}
