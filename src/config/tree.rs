//! The configuration as written: values that remember where they stand.

use std::collections::HashMap;

use serde_json::Value;

use super::report::{Origin, child};

/// One value with its place. No type here has `Debug`: secrets are among the values.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
}

/// What a node holds.
#[derive(Clone)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// Text between quotes, or plain text with the value that YAML takes it for.
#[derive(Clone)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes, so that its value is YAML's guess.
    pub(crate) plain: bool,
    pub(crate) value: Value,
}

/// One key of a map with its place.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) origin: Origin,
}

/// Where each value stands, by JSON pointer.
#[derive(Clone, Default)]
pub(crate) struct Places(HashMap<String, Place>);

/// One value's place, and what was written there.
#[derive(Clone)]
pub(crate) struct Place {
    /// Where its key stands; list elements have none.
    pub(crate) key: Option<Origin>,
    pub(crate) value: Origin,
    /// The text of a plain scalar, before YAML took it for a number, for example.
    pub(crate) plain: Option<String>,
}

impl Node {
    /// The values alone.
    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(scalar) => scalar.value.clone(),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Map(entries) => Value::Object(
                entries.iter().map(|(key, node)| (key.name.clone(), node.to_value())).collect(),
            ),
        }
    }

    /// The places alone.
    pub(crate) fn places(&self) -> Places {
        let mut places = Places::default();
        self.collect(String::new(), None, &mut places);
        places
    }

    fn collect(&self, pointer: String, key: Option<Origin>, places: &mut Places) {
        let plain = match &self.kind {
            Kind::Scalar(scalar) if scalar.plain => Some(scalar.text.clone()),
            Kind::Scalar(_) => None,
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.collect(child(&pointer, &index.to_string()), None, places);
                }
                None
            }
            Kind::Map(entries) => {
                for (key, node) in entries {
                    node.collect(child(&pointer, &key.name), Some(key.origin.clone()), places);
                }
                None
            }
        };
        places.0.insert(pointer, Place { key, value: self.origin.clone(), plain });
    }

    /// The value under the key or index `name`, if this holds it.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(entries) => {
                entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
            }
            Kind::List(items) => items.get(name.parse::<usize>().ok()?),
            Kind::Scalar(_) => None,
        }
    }
}

impl Places {
    /// The place of exactly this value.
    pub(crate) fn get(&self, pointer: &str) -> Option<&Place> {
        self.0.get(pointer)
    }

    /// Where the value at `pointer` stands, or the nearest value around it that was written.
    pub(crate) fn nearest(&self, pointer: &str) -> Origin {
        let mut rest = pointer;
        loop {
            if let Some(place) = self.0.get(rest) {
                return place.value.clone();
            }
            match rest.rsplit_once('/') {
                Some((parent, _)) => rest = parent,
                None => return Origin::START,
            }
        }
    }

    /// Where the key of the value at `pointer` stands, else the value, else what is around it.
    pub(crate) fn key(&self, pointer: &str) -> Origin {
        let key = self.0.get(pointer).and_then(|place| place.key.clone());
        key.unwrap_or_else(|| self.nearest(pointer))
    }

    /// The value at `pointer` came from what stands at `source`.
    pub(crate) fn stand_in(&mut self, pointer: &str, source: &str) {
        if let Some(place) = self.0.get(source).cloned() {
            self.0.insert(pointer.to_owned(), place);
        }
    }
}
