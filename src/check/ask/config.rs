//! The section `api`: who may ask the decision API what.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{HumanSize, Problem};
use crate::route::{CORE_MEMBERS, Use, is_identifier};

/// What a `key_hash` starts with: the hash function's name.
pub(super) const HASH_PREFIX: &str = "blake3:";

/// The decision API (`listen.api`).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiConfig {
    /// The entry point that answers.
    pub policy: String,
    /// Protection space of the challenge in a 401.
    #[serde(default = "realm")]
    pub realm: String,
    /// `context.path` of a question; `{resource}` stands for its resource.
    #[serde(default = "path")]
    pub path: String,
    /// The actions that can be asked for, with `context.method` of each.
    #[serde(default = "actions")]
    pub actions: BTreeMap<String, String>,
    /// The resources that can be asked for. Left out: every name of letters, digits, `_`, `-` and
    /// `.` that starts with none of the last two.
    pub resources: Option<Vec<String>>,
    /// Names of the issuers whose tokens are accepted. Left out: every configured one.
    #[serde(default)]
    pub issuers: Vec<String>,
    /// A token needs one of these in `aud`. Left out: what its issuer asks for.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// Callers that may do more than ask about themselves.
    #[serde(default)]
    pub callers: Vec<CallerConfig>,
    /// The fields of a question's `context`. One that is not listed counts as evidence.
    #[serde(default)]
    pub fields: BTreeMap<String, FieldConfig>,
    /// Members of the user context that answers show. Left out: all of them.
    pub user_fields: Option<Vec<String>>,
    /// Largest body of one question.
    #[serde(default = "max_body")]
    pub max_body: HumanSize,
    /// Largest body of a batch.
    #[serde(default = "max_batch_body")]
    pub max_batch_body: HumanSize,
}

/// A caller with rights: known by an API key or by the scopes of its token.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerConfig {
    /// Its name, in audit.
    pub name: String,
    /// Hash of its API key: `blake3:` and 64 hexadecimal digits, as `portcullis api-key` prints it.
    pub key_hash: Option<String>,
    /// A token that has all of these scopes is this caller's.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// What it may do beyond asking about itself.
    #[serde(default)]
    pub may: Vec<May>,
}

/// A right of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum May {
    /// Say in `user` who is asked about.
    AssertUser,
    /// Ask about the person of a token (`jwt_token`) that is not its own.
    OtherToken,
    /// Give evidence: the fields that vouch.
    Vouch,
}

/// One field of a question's `context`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldConfig {
    /// Whether it says what is asked for, or is evidence, which only a caller that may vouch gives.
    #[serde(rename = "use")]
    pub purpose: Use,
}

fn realm() -> String {
    "portcullis".to_owned()
}

fn path() -> String {
    "/{resource}".to_owned()
}

fn actions() -> BTreeMap<String, String> {
    let pairs = [("read", "GET"), ("create", "POST"), ("update", "PUT"), ("delete", "DELETE")];
    pairs.into_iter().map(|(action, method)| (action.to_owned(), method.to_owned())).collect()
}

fn max_body() -> HumanSize {
    HumanSize(64 << 10)
}

fn max_batch_body() -> HumanSize {
    HumanSize(1 << 20)
}

/// Whether `name` can be a resource: one path segment that every reader reads alike.
pub(super) fn is_resource(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    name.len() <= 128
        && name.bytes().all(plain)
        && !name.starts_with(['-', '.'])
        && !name.is_empty()
}

impl ApiConfig {
    /// Every problem of the section by itself.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let path = self.path.replacen("{resource}", "", 1);
        let segments = self.path.split('/').skip(1);
        let plain = |s: &str| s == "{resource}" || is_resource(s);
        if path.len() == self.path.len()
            || !self.path.starts_with('/')
            || !segments.clone().all(plain)
        {
            let message = format!("`{}` is no path with the segment {{resource}}", self.path);
            found.push(Problem::new("/path", message, "write for example /api/{resource}"));
        }
        if self.actions.is_empty() {
            let fix = "name at least one, or leave the key out for the default";
            found.push(Problem::new("/actions", "the list is empty", fix));
        }
        for (action, method) in &self.actions {
            let upper = method.bytes().all(|b| b.is_ascii_uppercase()) && !method.is_empty();
            if !is_identifier(action) || !upper {
                let message = format!("`{action}: {method}` is no action with its HTTP method");
                found.push(Problem::new("/actions", message, "write for example read: GET"));
            }
        }
        for (index, name) in self.resources.iter().flatten().enumerate() {
            if !is_resource(name) {
                let fix = "use letters, digits, `_`, `-` and `.`";
                let message = format!("`{name}` is no name of a resource");
                found.push(Problem::new(format!("/resources/{index}"), message, fix));
            }
        }
        if self.resources.as_ref().is_some_and(Vec::is_empty) {
            let fix = "name at least one, or leave the key out for every resource";
            found.push(Problem::new("/resources", "the list is empty", fix));
        }
        for name in self.fields.keys() {
            if CORE_MEMBERS.contains(&name.as_str()) || !is_identifier(name) || name.len() > 64 {
                let message = format!("`{name}` is no name for a field");
                let fix = "use letters, digits and `_`, and no member that Portcullis sets itself";
                found.push(Problem::new("/fields", message, fix));
            }
        }
        for (at, size) in [("/max_body", self.max_body), ("/max_batch_body", self.max_batch_body)] {
            if !(256..=(16 << 20)).contains(&size.0) {
                let message = format!("`{size}` is out of range");
                found.push(Problem::new(at, message, "write 256B to 16MiB"));
            }
        }
        found.extend(self.of_callers());
        found
    }

    fn of_callers(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let (mut names, mut hashes) = (HashSet::new(), HashSet::new());
        for (index, caller) in self.callers.iter().enumerate() {
            let at = |member: &str| format!("/callers/{index}{member}");
            if caller.name.is_empty() || !names.insert(&caller.name) {
                let message = format!("`{}` is empty or another caller's name", caller.name);
                found.push(Problem::new(at("/name"), message, "give each caller its own name"));
            }
            if caller.key_hash.is_some() != caller.scopes.is_empty() {
                let fix = "write `key_hash` for an API key, or `scopes` for a token";
                found.push(Problem::new(at(""), "the caller is known by nothing, or twice", fix));
            }
            let Some(hash) = &caller.key_hash else { continue };
            if key_hash(hash).is_none() {
                let fix =
                    "write what `portcullis api-key` prints: blake3: and 64 hexadecimal digits";
                found.push(Problem::new(at("/key_hash"), "this is no hash of an API key", fix));
            } else if !hashes.insert(hash.to_ascii_lowercase()) {
                let fix = "give each caller its own key";
                found.push(Problem::new(at("/key_hash"), "another caller has this key", fix));
            }
        }
        found
    }
}

/// The hash in a configured `key_hash`.
pub(super) fn key_hash(text: &str) -> Option<blake3::Hash> {
    blake3::Hash::from_hex(text.strip_prefix(HASH_PREFIX)?).ok()
}
