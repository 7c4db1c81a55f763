//! The declared attributes of a route, prepared for reading.

use super::body::Pointer;
use super::config::{AttributeConfig, BodyRule, Kind, PeerField, RouteConfig};
use super::pattern::{Pattern, Var};
use super::query::Param;

/// Members of `context` that the core sets; no attribute and no caller takes their names.
pub const CORE: [&str; 9] =
    ["body_state", "host", "method", "path", "query", "scheme", "segments", "time", "time_ns"];

/// What a route reads of a request beyond path and method.
#[derive(Debug)]
pub(super) struct Attributes {
    /// The members of `context`, sorted by name; time is added by whoever evaluates.
    pub slots: Vec<Slot>,
    /// Declared query parameters, sorted by name.
    pub params: Vec<Param>,
    /// How the body is read, where an attribute comes from it.
    pub body: Option<BodyReading>,
}

/// How the body is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyReading {
    pub required: bool,
    pub max: usize,
}

/// One member of `context`.
#[derive(Debug)]
pub(super) struct Slot {
    /// `"name":`.
    pub key: Box<str>,
    pub what: What,
}

/// What a member of `context` holds.
#[derive(Debug)]
pub(super) enum What {
    BodyState,
    Host,
    Method,
    Path,
    Query,
    Scheme,
    Segments,
    Attribute(Attribute),
}

/// One declared attribute.
#[derive(Debug)]
pub(super) struct Attribute {
    pub source: Source,
    pub list: bool,
    /// `None` leaves a JSON value what it is.
    pub kind: Option<Kind>,
}

/// Where an attribute comes from.
#[derive(Debug)]
pub(super) enum Source {
    Path(Var),
    /// Indices of query parameters, and a place in the body.
    Client {
        params: Vec<usize>,
        body: Option<Pointer>,
    },
    Header(Box<str>),
    Claim(Pointer),
    Peer(PeerField),
    Extension(Box<str>),
}

impl Attributes {
    /// Prepares the attributes of a route that was validated before.
    pub(super) fn build(config: &RouteConfig, pattern: &Pattern) -> Result<Self, String> {
        let mut params: Vec<Param> = Vec::new();
        for attribute in config.attributes.values() {
            for name in names(attribute) {
                params.push(Param { name: name.as_str().into(), list: attribute.list });
            }
        }
        params.sort_by(|a, b| a.name.cmp(&b.name));
        let mut members: Vec<(&str, What)> = vec![
            ("host", What::Host),
            ("method", What::Method),
            ("path", What::Path),
            ("scheme", What::Scheme),
            ("segments", What::Segments),
        ];
        if !params.is_empty() {
            members.push(("query", What::Query));
        }
        let reads_body = config.attributes.values().any(|a| a.body.is_some());
        let body = reads_body.then(|| BodyReading {
            required: config.body != Some(BodyRule::Optional),
            max: config.max_body.as_usize(),
        });
        if reads_body {
            members.push(("body_state", What::BodyState));
        }
        for (name, attribute) in &config.attributes {
            let source = source(attribute, pattern, &params).ok_or_else(|| name.clone())?;
            let stays = attribute.claim.is_some()
                || (attribute.body.is_some() && attribute.query.is_none());
            let kind = attribute.kind.or((!stays).then_some(Kind::String));
            members.push((name, What::Attribute(Attribute { source, list: attribute.list, kind })));
        }
        members.sort_by_key(|(name, _)| *name);
        let slot = |(name, what): (&str, What)| Slot { key: format!("\"{name}\":").into(), what };
        Ok(Self { slots: members.into_iter().map(slot).collect(), params, body })
    }
}

/// The attribute's query parameters.
pub(super) fn names(attribute: &AttributeConfig) -> &[String] {
    attribute.query.as_ref().map_or(&[], |names| names.as_slice())
}

fn source(attribute: &AttributeConfig, pattern: &Pattern, params: &[Param]) -> Option<Source> {
    if let Some(name) = &attribute.path {
        return pattern.var(name).map(Source::Path);
    }
    if let Some(name) = &attribute.header {
        return Some(Source::Header(name.to_ascii_lowercase().into()));
    }
    if let Some(claim) = &attribute.claim {
        let pointer =
            if claim.starts_with('/') { Pointer::parse(claim)? } else { Pointer::to_member(claim) };
        return Some(Source::Claim(pointer));
    }
    if let Some(field) = attribute.peer {
        return Some(Source::Peer(field));
    }
    if let Some(name) = &attribute.extension {
        return Some(Source::Extension(name.as_str().into()));
    }
    let position = |name: &String| params.iter().position(|p| *p.name == **name);
    let given = names(attribute).iter().map(position).collect::<Option<Vec<_>>>()?;
    let body = match &attribute.body {
        Some(pointer) => Some(Pointer::parse(pointer)?),
        None => None,
    };
    (!given.is_empty() || body.is_some()).then_some(Source::Client { params: given, body })
}
