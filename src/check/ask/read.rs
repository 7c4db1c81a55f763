//! A question to the decision API, read: strict JSON of the documented form, nothing beside it.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::config::{ApiConfig, is_resource};
use crate::model::{Code, Fragment, Refusal, Request, Secret};
use crate::route::{BodyRead, CORE_MEMBERS, MAX_DEPTH, MAX_MEMBERS, MAX_STRING, Use, read_body};

/// Most questions of a batch.
pub const MAX_BATCH: usize = 100;

/// One question, read and held against its limits.
#[derive(Debug)]
pub struct Ask {
    pub(super) resource: Box<str>,
    pub(super) action: Box<str>,
    /// Who the caller says it is about.
    pub(super) user: Option<Fragment>,
    /// Who it is about, by token.
    pub(super) jwt_token: Option<Secret<String>>,
    /// `input.context` without time.
    pub(super) context: Box<str>,
    /// A field of it is evidence.
    pub(super) vouches: bool,
}

/// What is wrong with a body; in a batch, with which question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// What.
    pub refusal: Refusal,
    /// Its place in the batch.
    pub at: Option<usize>,
}

impl From<Refusal> for Wrong {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, at: None }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    resource: String,
    action: String,
    #[serde(default, deserialize_with = "present")]
    user: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    jwt_token: Option<String>,
    #[serde(default, deserialize_with = "present")]
    context: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireBatch<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

/// What is there is not `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

const fn invalid(detail: &'static str) -> Refusal {
    Refusal::new(Code::RequestInvalid, detail)
}

const fn too_large(detail: &'static str) -> Refusal {
    Refusal::new(Code::InputTooLarge, detail)
}

/// How questions are read.
#[derive(Debug)]
pub(super) struct Reader {
    methods: BTreeMap<String, String>,
    resources: Option<HashSet<String>>,
    path: Vec<String>,
    vouches: BTreeMap<String, bool>,
    pub max_body: usize,
    pub max_batch_body: usize,
}

impl Reader {
    pub(super) fn new(config: &ApiConfig) -> Self {
        let vouches = |(name, field): (&String, &super::config::FieldConfig)| {
            (name.clone(), field.purpose == Use::Vouches)
        };
        Self {
            methods: config.actions.clone(),
            resources: config.resources.clone().map(|list| list.into_iter().collect()),
            path: config.path.split('/').skip(1).map(str::to_owned).collect(),
            vouches: config.fields.iter().map(vouches).collect(),
            max_body: config.max_body.as_usize(),
            max_batch_body: config.max_batch_body.as_usize(),
        }
    }

    pub(super) fn vocabulary(&self) -> (Vec<&str>, Option<Vec<&str>>) {
        let resources = self.resources.as_ref().map(|set| {
            let mut names: Vec<&str> = set.iter().map(String::as_str).collect();
            names.sort_unstable();
            names
        });
        (self.methods.keys().map(String::as_str).collect(), resources)
    }

    /// The one question in the body of `request`.
    pub(super) fn one(&self, request: &Request) -> Result<Ask, Refusal> {
        self.question(whole(request, self.max_body)?.get())
    }

    /// The questions of a batch, in their order.
    pub(super) fn batch(&self, request: &Request) -> Result<Vec<Ask>, Wrong> {
        let body = whole(request, self.max_batch_body)?;
        let shape = invalid("the body is no object with the list `requests` alone");
        let batch: WireBatch<'_> = serde_json::from_str(body.get()).map_err(|_| shape)?;
        if !(1..=MAX_BATCH).contains(&batch.requests.len()) {
            return Err(invalid("`requests` has 1 to 100 questions").into());
        }
        let each = |(at, json): (usize, &&RawValue)| {
            self.question(json.get()).map_err(|refusal| Wrong { refusal, at: Some(at) })
        };
        batch.requests.iter().enumerate().map(each).collect()
    }

    fn question(&self, json: &str) -> Result<Ask, Refusal> {
        let shape = "a member is missing, unknown or of the wrong type";
        let wire: Wire = serde_json::from_str(json).map_err(|_| invalid(shape))?;
        let method = self.methods.get(&wire.action);
        let method = method.ok_or(invalid("`action` is not one that can be asked for"))?;
        let known = match &self.resources {
            Some(list) => list.contains(&wire.resource),
            None => is_resource(&wire.resource),
        };
        if !known {
            return Err(invalid("`resource` is not one that can be asked for"));
        }
        let mut budget = MAX_MEMBERS;
        let user = wire.user.map(Value::Object);
        if let Some(user) = &user {
            bounded(user, 0, &mut budget)?;
        }
        let mut context = self.core(&wire.resource, method);
        let mut vouches = false;
        for (name, value) in wire.context.unwrap_or_default() {
            if CORE_MEMBERS.contains(&name.as_str()) {
                return Err(Refusal::new(
                    Code::FieldReserved,
                    "a field of `context` is the core's",
                ));
            }
            if value.is_null() {
                // What is absent is absent in the policy's input.
                continue;
            }
            if name.len() > MAX_STRING {
                return Err(too_large("a name is too long"));
            }
            bounded(&value, 1, &mut budget)?;
            // A field that nobody declared could be any policy's evidence.
            vouches |= self.vouches.get(&name).copied().unwrap_or(true);
            context.insert(name, value);
        }
        Ok(Ask {
            resource: wire.resource.into(),
            action: wire.action.into(),
            user: user.map(|user| Fragment::new(&user)),
            jwt_token: wire.jwt_token.map(Secret::new),
            context: Value::Object(context).to_string().into(),
            vouches,
        })
    }

    /// The members of `context` that the core sets, as a request for the resource would have them.
    fn core(&self, resource: &str, method: &str) -> Map<String, Value> {
        let fill = |s: &String| if s == "{resource}" { resource.to_owned() } else { s.clone() };
        let segments: Vec<String> = self.path.iter().map(fill).collect();
        let mut members = Map::new();
        members.insert("method".to_owned(), method.into());
        members.insert("path".to_owned(), format!("/{}", segments.join("/")).into());
        members.insert("segments".to_owned(), json!(segments));
        members
    }
}

/// The body as JSON without duplicate keys.
fn whole(request: &Request, max: usize) -> Result<&RawValue, Refusal> {
    match read_body(request, max)? {
        BodyRead::Whole(json) => Ok(json),
        BodyRead::Not(_) => Err(invalid("the body is no application/json, or has a key twice")),
    }
}

/// Holds a value against the limits of depth, members and string length.
fn bounded(value: &Value, depth: usize, budget: &mut usize) -> Result<(), Refusal> {
    if depth > MAX_DEPTH {
        return Err(too_large("the question is nested too deeply"));
    }
    *budget = budget.checked_sub(1).ok_or(too_large("there are too many values"))?;
    match value {
        Value::String(text) if text.len() > MAX_STRING => Err(too_large("a string is too long")),
        Value::Array(items) => items.iter().try_for_each(|item| bounded(item, depth + 1, budget)),
        Value::Object(members) => {
            if members.keys().any(|name| name.len() > MAX_STRING) {
                return Err(too_large("a name is too long"));
            }
            members.values().try_for_each(|member| bounded(member, depth + 1, budget))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
