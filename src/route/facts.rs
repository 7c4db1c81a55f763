//! What a matched request asks for: `resource`, `action` and the policy input's `context`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::attributes::{Attribute, Source, What};
use super::body::{self, Pointer, Read};
use super::config::{Kind, PeerField};
use super::json::{self, Writer};
use super::limits;
use super::pattern::{value, visible};
use super::query::{self, Values, ambiguous};
use super::table::Matched;
use super::trie::header;
use crate::model::{Code, Refusal, VerifiedToken};

/// What the policy is told of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What is asked for.
    pub resource: Option<Box<str>>,
    /// What is to be done with it.
    pub action: Option<Box<str>>,
    /// `input.context` without time: equal requests make equal bytes.
    pub context: Box<str>,
}

/// The parts of a request that only some routes read.
struct Given<'r> {
    params: Values<'r>,
    body: Option<&'r RawValue>,
    body_state: Option<&'static str>,
}

const WRONG_TYPE: Refusal =
    Refusal::new(Code::AttributeInvalid, "a declared attribute is not of its type");

impl<'r> Matched<'_, 'r> {
    /// The facts; `token` is the verified one, where a credential came.
    ///
    /// # Errors
    ///
    /// `ambiguous_parameter`, `attribute_invalid`, `body_invalid` or `input_too_large`.
    pub fn facts(&self, token: Option<&VerifiedToken>) -> Result<Facts, Refusal> {
        let given = self.given()?;
        let mut out = Writer::new();
        let mut separator = "{";
        for slot in &self.route.attributes.slots {
            // Written first, so that an absent member costs no second look.
            let before = out.len();
            out.raw(separator);
            out.raw(&slot.key);
            if self.member(&slot.what, &given, token, &mut out)? {
                separator = ",";
            } else {
                out.truncate(before);
            }
        }
        out.raw("}");
        let method = &*self.request.method;
        Ok(Facts {
            resource: self.route.resource.as_ref().and_then(|t| t.fill(&self.target)),
            action: self.route.action.of(method).and_then(|t| t.fill(&self.target)),
            context: out.finish()?.into(),
        })
    }

    fn given(&self) -> Result<Given<'r>, Refusal> {
        let attributes = &self.route.attributes;
        let params = if attributes.params.is_empty() {
            Vec::new()
        } else {
            query::read(self.target.query.unwrap_or_default(), &attributes.params)?
        };
        let mut given = Given { params, body: None, body_state: None };
        let carries = matches!(&*self.request.method, "POST" | "PUT" | "PATCH");
        if let Some(reading) = attributes.body.filter(|_| carries) {
            match body::read(self.request, reading.max)? {
                Read::Whole(document) => given.body = Some(document),
                Read::Not(state) if reading.required => {
                    return Err(Refusal::new(Code::BodyInvalid, state));
                }
                Read::Not(state) => given.body_state = Some(state),
            }
        }
        Ok(given)
    }

    /// Writes one member's value; false where it has none.
    fn member(
        &self,
        what: &What,
        given: &Given<'r>,
        token: Option<&VerifiedToken>,
        out: &mut Writer,
    ) -> Result<bool, Refusal> {
        let text = |out: &mut Writer, text: &str| out.string(text).map(|()| true);
        match what {
            What::Method => text(out, &self.request.method),
            What::Host => text(out, &self.host),
            What::Path => self.path(out).map(|()| true),
            What::Segments => {
                let each = |out: &mut Writer, s: &Cow<'_, str>| out.string(s);
                out.list(&self.target.segments, each).map(|()| true)
            }
            What::Scheme => match &*self.request.scheme {
                scheme @ ("http" | "https") => text(out, scheme),
                _ => Ok(false),
            },
            What::BodyState => given.body_state.map_or(Ok(false), |state| text(out, state)),
            What::Query => self.query(given, out),
            What::Attribute(attribute) => self.attribute(attribute, given, token, out),
        }
    }

    fn path(&self, out: &mut Writer) -> Result<(), Refusal> {
        if let Some(path) = self.target.plain {
            return out.string(path);
        }
        let mut path = String::with_capacity(self.request.target.len());
        for segment in &self.target.segments {
            path.push('/');
            path.push_str(&visible(segment));
        }
        if self.target.slash {
            path.push('/');
        }
        out.string(&path)
    }

    fn query(&self, given: &Given<'r>, out: &mut Writer) -> Result<bool, Refusal> {
        let params = self.route.attributes.params.iter().zip(&given.params);
        let mut separator = "{";
        for (param, values) in params.filter(|(_, values)| !values.is_empty()) {
            out.raw(separator);
            separator = ",";
            out.string(&param.name)?;
            out.raw(":");
            strings(values.iter().map(|v| &**v), param.list, out)?;
        }
        if separator == "{" {
            return Ok(false);
        }
        out.raw("}");
        Ok(true)
    }

    fn attribute(
        &self,
        attribute: &Attribute,
        given: &Given<'r>,
        token: Option<&VerifiedToken>,
        out: &mut Writer,
    ) -> Result<bool, Refusal> {
        let request = self.request;
        let one: Option<Cow<'_, str>> = match &attribute.source {
            Source::Client { params, body } => {
                return client(attribute, params, body.as_ref(), given, out);
            }
            Source::Claim(claim) => {
                let claims = token.map(|token| token.claims.json());
                let value = claims.as_deref().and_then(|claims| claim.find(claims));
                return value.map_or(Ok(false), |value| whole(attribute, value, out));
            }
            Source::Header(name) => match header(request, name) {
                Some(value) => return field(attribute, &value, out),
                None => None,
            },
            Source::Path(var) => value(*var, &self.target),
            Source::Peer(PeerField::Address) => Some(request.source.address.as_str().into()),
            Source::Peer(PeerField::Principal) => Some(request.source.principal.as_str().into()),
            Source::Extension(name) => {
                let mut extensions = request.context_extensions.iter();
                let found = extensions.find(|(known, _)| **known == **name);
                found.map(|(_, value)| value.as_str().into())
            }
        };
        match one.filter(|text| !(text.is_empty() && matches!(attribute.source, Source::Peer(_)))) {
            Some(text) => texts(attribute, &[text], out),
            None => Ok(false),
        }
    }
}

/// An attribute from query, body or both, which must then agree.
fn client(
    attribute: &Attribute,
    params: &[usize],
    body: Option<&Pointer>,
    given: &Given<'_>,
    out: &mut Writer,
) -> Result<bool, Refusal> {
    let given_in = |at: &usize| given.params.get(*at).filter(|values| !values.is_empty());
    if !attribute.list && params.iter().filter_map(given_in).count() > 1 {
        return Err(ambiguous("a declared parameter is given under two of its names"));
    }
    let values: Vec<Cow<'_, str>> =
        params.iter().filter_map(given_in).flatten().map(|v| Cow::Borrowed(&**v)).collect();
    let in_body = match (body, given.body) {
        (Some(pointer), Some(document)) => pointer.find(document.get()),
        _ => None,
    };
    let start = out.len();
    let from_query = texts(attribute, &values, out)?;
    let Some(in_body) = in_body else { return Ok(from_query) };
    let middle = out.len();
    let from_body = whole(attribute, in_body, out)?;
    if from_query && from_body {
        let (first, second) =
            out.as_str().get(start..).unwrap_or_default().split_at(middle - start);
        if first != second {
            return Err(ambiguous("query and body differ on a declared parameter"));
        }
        out.truncate(middle);
    }
    Ok(from_query || from_body)
}

/// A header's value; as a list it is split at commas.
fn field(attribute: &Attribute, value: &[u8], out: &mut Writer) -> Result<bool, Refusal> {
    let invalid = Refusal::new(Code::AttributeInvalid, "a declared header is not UTF-8");
    let text = std::str::from_utf8(value).map_err(|_| invalid)?;
    if !attribute.list {
        return texts(attribute, &[Cow::Borrowed(text)], out);
    }
    let elements = text.split(',').map(str::trim).filter(|e| !e.is_empty());
    texts(attribute, &elements.map(Cow::Borrowed).collect::<Vec<_>>(), out)
}

/// Values that came as text.
fn texts(
    attribute: &Attribute,
    values: &[Cow<'_, str>],
    out: &mut Writer,
) -> Result<bool, Refusal> {
    let each = |out: &mut Writer, text: &Cow<'_, str>| match attribute.kind {
        Some(Kind::Number) if !json::is_number(text) => Err(WRONG_TYPE),
        Some(Kind::Boolean) if !matches!(&**text, "true" | "false") => Err(WRONG_TYPE),
        Some(Kind::Number | Kind::Boolean) => {
            out.raw(text);
            out.value()
        }
        Some(Kind::String) | None => out.string(text),
    };
    match values {
        [] => return Ok(false),
        many if attribute.list => out.list(many, each)?,
        [one, ..] => each(out, one)?,
    }
    Ok(true)
}

fn strings<'v>(
    mut values: impl Iterator<Item = &'v str>,
    list: bool,
    out: &mut Writer,
) -> Result<(), Refusal> {
    if list {
        return out.list(values, Writer::string);
    }
    values.next().map_or(Ok(()), |value| out.string(value))
}

/// A value that came as JSON.
fn whole(attribute: &Attribute, json: &str, out: &mut Writer) -> Result<bool, Refusal> {
    // Nested values are read once for each level, so their length is bounded before.
    if json.len() > limits::INPUT_BYTES {
        return Err(limits::too_large("a declared value is too long"));
    }
    let each = |out: &mut Writer, json: &str| {
        if !is_of(attribute.kind, json) {
            return Err(WRONG_TYPE);
        }
        out.canonical(json)
    };
    if !attribute.list {
        each(out, json)?;
    } else if json.starts_with('[') {
        let elements = json::elements(json);
        if elements.is_empty() {
            return Ok(false);
        }
        out.list(elements, |out, element| each(out, element.get()))?;
    } else {
        out.list([json], each)?;
    }
    Ok(true)
}

fn is_of(kind: Option<Kind>, json: &str) -> bool {
    match kind {
        None => true,
        Some(Kind::String) => json.starts_with('"'),
        Some(Kind::Number) => json.starts_with(|c: char| c == '-' || c.is_ascii_digit()),
        Some(Kind::Boolean) => matches!(json, "true" | "false"),
    }
}
