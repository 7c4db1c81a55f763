//! Overrides from the environment: `PORTCULLIS__LISTEN__ADMIN=127.0.0.1:9190`.
//!
//! `__` parts the keys, whose case does not matter; list elements are numbers. A value is read as
//! YAML, except where the schema asks for text alone: there it is taken as it is. Text where a list
//! belongs is a list of its parts between commas. `X` replaces the file's `x_file`, and `X_FILE`
//! its `x`. This is the only reader of the environment.

use std::ffi::OsString;

use serde_json::Value;

use super::otel;
use super::report::{Fault, Origin, child};
use super::schema::{Schema, Spot};
use super::suggest::{all, nearest};
use super::tree::{Key, Kind, Node, Scalar};
use super::yaml;

const PREFIX: &str = "PORTCULLIS__";

/// The variables that configure us.
#[derive(Clone, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }
}

impl std::fmt::Debug for Environment {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(all: I) -> Self {
        let ours = |name: &OsString| {
            let name = name.to_string_lossy();
            name.starts_with(PREFIX) || otel::is_standard(&name)
        };
        Self(all.into_iter().filter(|(name, _)| ours(name)).collect())
    }
}

/// One variable with its way through the tree.
struct Override<'a> {
    origin: Origin,
    name: &'a str,
    text: &'a str,
    steps: Vec<&'a str>,
}

/// Writes the overrides into `tree`; the shorter names first, so that a longer one refines them.
pub(super) fn apply(tree: &mut Node, environment: &Environment, schema: &Schema) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut overrides = Vec::new();
    let standard = otel::translate(&environment.0);
    let own = environment.0.iter().filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX));
    for (name, value) in own {
        let origin = Origin::Environment(name.to_string_lossy().into());
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(text)) => {
                let steps = name.strip_prefix(PREFIX).unwrap_or_default().split("__").collect();
                overrides.push(Override { origin, name, text, steps });
            }
            _ => faults.push(Fault::new(origin, "", "not UTF-8", "write it in UTF-8")),
        }
    }
    overrides.extend(standards(&standard, &overrides));
    // Numbers in order, so that 10 comes after 9.
    overrides.sort_by_cached_key(|o| {
        let order: Vec<(usize, String)> =
            o.steps.iter().map(|step| (step.len(), step.to_ascii_lowercase())).collect();
        (o.steps.len(), order, o.name)
    });
    let same = |a: &Override<'_>, b: &Override<'_>| {
        a.steps.len() == b.steps.len()
            && a.steps.iter().zip(&b.steps).all(|(x, y)| x.eq_ignore_ascii_case(y))
    };
    for pair in overrides.windows(2) {
        if let [first, second] = pair
            && same(first, second)
        {
            let message = format!("sets the same key as {}", first.name);
            faults.push(Fault::new(second.origin.clone(), "", message, "keep one of the two"));
        }
    }
    if matches!(tree.kind, Kind::Map(_)) {
        for one in &overrides {
            faults.extend(set(tree, one, schema).err());
        }
    }
    faults
}

/// The standard variables as overrides, but for keys that our own set.
fn standards<'a>(found: &'a [otel::Standard], own: &[Override<'a>]) -> Vec<Override<'a>> {
    let is_set = |key: &str| {
        own.iter().any(|one| match one.steps.as_slice() {
            [section] => section.eq_ignore_ascii_case("tracing"),
            [section, name, ..] => {
                let name = name.to_ascii_uppercase();
                section.eq_ignore_ascii_case("tracing")
                    && name.strip_suffix("_FILE").unwrap_or(&name)
                        == key.strip_suffix("_FILE").unwrap_or(key)
            }
            [] => false,
        })
    };
    let others = found.iter().filter(|one| !is_set(one.key));
    others
        .map(|one| Override {
            origin: Origin::Environment(one.name.into()),
            name: one.name,
            text: &one.text,
            steps: vec!["TRACING", one.key],
        })
        .collect()
}

fn set(tree: &mut Node, one: &Override<'_>, schema: &Schema) -> Result<(), Fault> {
    let mut written = Some(&*tree);
    let mut spot = schema.root();
    let mut pointer = String::new();
    // Each segment with its pointer's parent, and whether a list belongs there.
    let mut way = Vec::new();
    for step in &one.steps {
        let segment = segment(written, &spot, step, one, &pointer)?;
        written = written.and_then(|node| node.get(&segment));
        spot = schema.step(&spot, &segment);
        let below = child(&pointer, &segment);
        way.push((segment, std::mem::replace(&mut pointer, below), is_list(&spot)));
    }
    let mut value = read(one, &spot, &pointer)?;
    stamp(&mut value, &one.origin);
    let mut node = tree;
    for (depth, (segment, parent, list)) in way.iter().enumerate() {
        if depth + 1 == way.len() {
            drop_twin(node, segment, &schema.at(parent));
        }
        node = enter(node, segment, *list, one, parent)?;
    }
    *node = value;
    Ok(())
}

/// `x` from the environment goes before `x_file` of the file, and the other way round.
fn drop_twin(node: &mut Node, segment: &str, spot: &Spot<'_>) {
    let twin = match segment.strip_suffix("_file") {
        Some(stem) => stem.to_owned(),
        None => format!("{segment}_file"),
    };
    let known = spot.keys();
    if let Kind::Map(entries) = &mut node.kind
        && known.contains(&twin.as_str())
        && known.contains(&segment)
    {
        entries.retain(|(key, value)| {
            key.name != twin || matches!(value.origin, Origin::Environment(_))
        });
    }
}

fn is_list(spot: &Spot<'_>) -> bool {
    let types = spot.types();
    types.contains(&"array") && !types.contains(&"object")
}

/// The key or index that `step` names below `spot`.
fn segment(
    written: Option<&Node>,
    spot: &Spot<'_>,
    step: &str,
    one: &Override<'_>,
    pointer: &str,
) -> Result<String, Fault> {
    let keys = spot.keys();
    if let Some(key) = keys.iter().find(|key| key.eq_ignore_ascii_case(step)) {
        return Ok((*key).to_owned());
    }
    let number = !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
    if spot.types().contains(&"array") && number {
        let index = step.trim_start_matches('0');
        return Ok(if index.is_empty() { "0".to_owned() } else { index.to_owned() });
    }
    if spot.has_free_keys() && !step.is_empty() {
        let same = match written.map(|node| &node.kind) {
            Some(Kind::Map(entries)) => {
                entries.iter().map(|(k, _)| &k.name).find(|k| k.eq_ignore_ascii_case(step))
            }
            _ => None,
        };
        return Ok(same.cloned().unwrap_or_else(|| step.to_ascii_lowercase()));
    }
    let message = format!("no key of the configuration has the name `{step}` here");
    let fix = match nearest(step, keys.iter().copied()) {
        Some(meant) => {
            let right: Vec<String> = one
                .steps
                .iter()
                .map(|s| if *s == step { meant.to_uppercase() } else { (*s).to_owned() })
                .collect();
            format!("did you mean {PREFIX}{}?", right.join("__"))
        }
        None if spot.types().contains(&"array") => {
            "write the number of a list element, from 0".to_owned()
        }
        None if keys.is_empty() => "unset it".to_owned(),
        None => format!("unset it; known here: {}", all(&keys)),
    };
    Err(Fault::new(one.origin.clone(), pointer, message, fix))
}

/// The node under `segment`, made where it is missing.
fn enter<'n>(
    node: &'n mut Node,
    segment: &str,
    list: bool,
    one: &Override<'_>,
    pointer: &str,
) -> Result<&'n mut Node, Fault> {
    let fresh = || Node {
        origin: one.origin.clone(),
        kind: if list { Kind::List(Vec::new()) } else { Kind::Map(Vec::new()) },
    };
    let too_far = |len: usize| {
        let message = format!("the list has {len} elements");
        let fix = format!("write a number up to {len}, which adds one");
        Fault::new(one.origin.clone(), pointer, message, fix)
    };
    if matches!(node.kind, Kind::Scalar(_)) {
        *node = Node { origin: one.origin.clone(), kind: Kind::Map(Vec::new()) };
    }
    match &mut node.kind {
        Kind::List(items) => {
            let len = items.len();
            let index = segment.parse::<usize>().unwrap_or(usize::MAX);
            if index == len {
                items.push(fresh());
            }
            items.get_mut(index).ok_or_else(|| too_far(len))
        }
        Kind::Map(entries) => {
            let at = entries.iter().position(|(key, _)| key.name == segment);
            let at = at.unwrap_or_else(|| {
                let key = Key { name: segment.to_owned(), origin: one.origin.clone() };
                entries.push((key, fresh()));
                entries.len() - 1
            });
            entries.get_mut(at).map(|(_, node)| node).ok_or_else(|| too_far(0))
        }
        Kind::Scalar(_) => Err(too_far(0)),
    }
}

/// The value of the variable, read as the schema wants it.
fn read(one: &Override<'_>, spot: &Spot<'_>, pointer: &str) -> Result<Node, Fault> {
    let types = spot.types();
    let text_only = !types.is_empty() && types.iter().all(|name| *name == "string");
    if spot.is_secret() || text_only {
        return Ok(text(one));
    }
    let takes_text = types.contains(&"string");
    if one.text.trim().is_empty() && !takes_text {
        let fix = "unset it, or give it a value";
        return Err(Fault::new(one.origin.clone(), pointer, "it is empty", fix));
    }
    let node = match yaml::parse(one.text) {
        Ok((node, faults)) if faults.is_empty() => node,
        _ if takes_text => return Ok(text(one)),
        Ok((_, faults)) => {
            let message = faults.first().map_or("not YAML", |fault| fault.message.as_str());
            return Err(Fault::new(one.origin.clone(), pointer, message, "write it once"));
        }
        Err(fault) => return Err(Fault { origin: Some(one.origin.clone()), ..fault }),
    };
    let Kind::Scalar(scalar) = &node.kind else { return Ok(node) };
    if is_list(spot) {
        return Ok(parts(one));
    }
    let kind = match scalar.value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        _ => "string",
    };
    let fits = types.contains(&kind) || kind == "number" && types.contains(&"integer");
    Ok(if takes_text && !fits { text(one) } else { node })
}

fn text(one: &Override<'_>) -> Node {
    let value = Value::String(one.text.to_owned());
    let scalar = Scalar { text: one.text.to_owned(), plain: false, value };
    Node { origin: one.origin.clone(), kind: Kind::Scalar(scalar) }
}

/// `a, b` as a list.
fn parts(one: &Override<'_>) -> Node {
    let items = one.text.split(',').map(|part| {
        let part = part.trim();
        let part = part
            .strip_prefix(['"', '\''])
            .and_then(|p| p.strip_suffix(['"', '\'']))
            .unwrap_or(part);
        text(&Override { origin: one.origin.clone(), name: one.name, text: part, steps: vec![] })
    });
    Node { origin: one.origin.clone(), kind: Kind::List(items.collect()) }
}

/// Everything in `node` came from the environment.
fn stamp(node: &mut Node, origin: &Origin) {
    node.origin = origin.clone();
    match &mut node.kind {
        Kind::Scalar(_) => {}
        Kind::List(items) => items.iter_mut().for_each(|item| stamp(item, origin)),
        Kind::Map(entries) => {
            for (key, value) in entries {
                key.origin = origin.clone();
                stamp(value, origin);
            }
        }
    }
}
