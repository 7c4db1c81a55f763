//! The index of routes: by host, then by path segment, then by required header or extension.
//! A look-up yields few candidates however many routes there are.

use std::borrow::Cow;
use std::collections::HashMap;

use super::pattern::{Part, Pattern, Tail};
use super::target::Target;
use crate::model::Request;

/// A route's number, in file order.
pub(super) type Number = u32;

/// Paths of routes by host.
#[derive(Debug, Default)]
pub(super) struct Index {
    exact: HashMap<Box<str>, Node>,
    /// By what follows the first dot of a wildcard's `*.`.
    below: HashMap<Box<str>, Node>,
    any: Node,
}

#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, Node>,
    wildcard: Option<Box<Node>>,
    end: Bucket,
    slash: Bucket,
    rest: Bucket,
}

/// What one route asks of a request beyond host, path and method.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Needed {
    pub place: Place,
    pub name: Box<str>,
    pub value: Box<str>,
}

/// Where a needed value is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Header,
    Extension,
}

impl Needed {
    /// Whether the request has exactly this value.
    pub(super) fn holds(&self, request: &Request) -> bool {
        found(self.place, &self.name, request).is_some_and(|value| *value == *self.value.as_bytes())
    }
}

fn found<'r>(place: Place, name: &str, request: &'r Request) -> Option<Cow<'r, [u8]>> {
    match place {
        Place::Header => header(request, name),
        Place::Extension => request
            .context_extensions
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| Cow::Borrowed(value.as_bytes())),
    }
}

/// The value of a header; the values of a repeated one joined by commas, as Envoy joins them.
pub(super) fn header<'r>(request: &'r Request, name: &str) -> Option<Cow<'r, [u8]>> {
    let mut values = request.headers.all(name);
    let mut joined = Cow::Borrowed(values.next()?);
    for value in values {
        let joined = joined.to_mut();
        joined.push(b',');
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// Numbers of routes that end at one place of the path index, ascending.
#[derive(Debug, Default)]
struct Bucket {
    plain: Vec<Number>,
    /// Routes that need a header or an extension, by the first one they need.
    keyed: Vec<Keyed>,
}

/// Routes that need the header or extension `name`, by the value they need.
#[derive(Debug)]
struct Keyed {
    place: Place,
    name: Box<str>,
    by_value: HashMap<Box<[u8]>, Vec<Number>>,
}

impl Bucket {
    fn add(&mut self, number: Number, needed: Option<&Needed>) {
        let Some(needed) = needed else {
            return self.plain.push(number);
        };
        let value = needed.value.as_bytes().into();
        let same = |k: &&mut Keyed| k.place == needed.place && k.name == needed.name;
        if let Some(keyed) = self.keyed.iter_mut().find(same) {
            keyed.by_value.entry(value).or_default().push(number);
        } else {
            let by_value = HashMap::from([(value, vec![number])]);
            self.keyed.push(Keyed { place: needed.place, name: needed.name.clone(), by_value });
        }
    }

    fn visit(&self, request: &Request, see: &mut impl FnMut(&[Number])) {
        if !self.plain.is_empty() {
            see(&self.plain);
        }
        for keyed in &self.keyed {
            let value = found(keyed.place, &keyed.name, request);
            if let Some(numbers) = value.and_then(|value| keyed.by_value.get(&*value)) {
                see(numbers);
            }
        }
    }
}

impl Index {
    /// Adds a route under one host (`None`: every host). Routes are added in file order.
    pub(super) fn add(
        &mut self,
        number: Number,
        host: Option<&str>,
        pattern: &Pattern,
        needed: Option<&Needed>,
    ) {
        let mut node = match host {
            None => &mut self.any,
            Some(host) => match host.strip_prefix("*.") {
                Some(suffix) => self.below.entry(suffix.into()).or_default(),
                None => self.exact.entry(host.into()).or_default(),
            },
        };
        for part in &pattern.parts {
            node = match part {
                Part::Literal(text) => node.literals.entry(text.clone()).or_default(),
                Part::Any => node.wildcard.get_or_insert_default(),
            };
        }
        let bucket = match pattern.tail {
            Tail::End => &mut node.end,
            Tail::Slash => &mut node.slash,
            Tail::Rest => &mut node.rest,
        };
        bucket.add(number, needed);
    }

    /// Shows every list of candidates for host and path; each list ascends.
    pub(super) fn candidates(
        &self,
        host: &str,
        target: &Target<'_>,
        request: &Request,
        mut see: impl FnMut(&[Number]),
    ) {
        let mut walk = |node: &Node| {
            node.walk(&target.segments, target.slash, &mut |bucket| {
                bucket.visit(request, &mut see);
            });
        };
        walk(&self.any);
        if let Some(node) = self.exact.get(host) {
            walk(node);
        }
        if self.below.is_empty() {
            return;
        }
        let mut rest = host;
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(node) = self.below.get(parent) {
                walk(node);
            }
            rest = parent;
        }
    }
}

impl Node {
    fn walk(&self, segments: &[Cow<'_, str>], slash: bool, see: &mut impl FnMut(&Bucket)) {
        see(&self.rest);
        let Some((first, others)) = segments.split_first() else {
            see(if slash { &self.slash } else { &self.end });
            return;
        };
        // A backend that drops `;…` reads the segment without it, so literals are compared so too.
        let name = first.split(';').next().unwrap_or_default();
        if let Some(node) = self.literals.get(name) {
            node.walk(others, slash, see);
        }
        if let Some(node) = &self.wildcard {
            node.walk(others, slash, see);
        }
    }
}
