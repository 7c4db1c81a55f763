//! The one document that a policy sees.

use std::sync::Arc;

use super::{Digest, Fragment, Hasher};
use crate::clock::Now;

/// Which kind of listener the question came through; decisions of one door never answer another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Door {
    /// Envoy's gRPC Check.
    #[default]
    Check,
    /// The HTTP decision API.
    Api,
}

impl Door {
    /// The stable name: part of decision keys, and audit's field `door`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Api => "api",
        }
    }
}

/// `input = { identity, user, token, resource, action, relations, context }`. Parts that are
/// absent here are absent in the document: never null, never empty.
#[derive(Debug, Clone)]
pub struct Input {
    /// The core's word on who asked.
    pub identity: Fragment,
    /// The mapped user context.
    pub user: Option<Fragment>,
    /// The declared claims.
    pub token: Option<Fragment>,
    /// What is asked for, from the route.
    pub resource: Option<Box<str>>,
    /// What is to be done with it, from the route.
    pub action: Option<Box<str>>,
    /// Method, path, query and declared attributes, without time: compact JSON with its members
    /// sorted, always an object. One Check's own, so that its hash is nobody else's.
    pub context: Box<str>,
}

/// What stands for an [`Input`] in a decision's key: so much of it as a Check has at hand that may
/// not need the document.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'i> {
    /// Of `identity`.
    pub identity: &'i Digest,
    /// Of `user`.
    pub user: Option<&'i Digest>,
    /// Of `token`.
    pub token: Option<&'i Digest>,
    /// `resource` itself.
    pub resource: Option<&'i str>,
    /// `action` itself.
    pub action: Option<&'i str>,
    /// `context` itself, without time.
    pub context: &'i str,
}

impl Parts<'_> {
    /// A hash of exactly this document, its time fields apart, together with what else the
    /// decision was computed from.
    #[must_use]
    pub fn key(&self, entry_point: &str, engine: &str, door: Door, revision: &str) -> Digest {
        let bytes = |digest: Option<&Digest>| digest.map(|digest| *digest.as_bytes());
        Hasher::sized("decision", 320 + self.context.len())
            .part(entry_point.as_bytes())
            .part(engine.as_bytes())
            .part(door.as_str().as_bytes())
            .part(revision.as_bytes())
            .part(self.identity.as_bytes())
            .optional(bytes(self.user).as_ref().map(<[u8; 32]>::as_slice))
            .optional(bytes(self.token).as_ref().map(<[u8; 32]>::as_slice))
            .optional(self.resource.map(str::as_bytes))
            .optional(self.action.map(str::as_bytes))
            .part(self.context.as_bytes())
            .finish()
    }
}

impl Input {
    /// What stands for it in a decision's key.
    #[must_use]
    pub fn parts(&self) -> Parts<'_> {
        Parts {
            identity: self.identity.digest(),
            user: self.user.as_ref().map(Fragment::digest),
            token: self.token.as_ref().map(Fragment::digest),
            resource: self.resource.as_deref(),
            action: self.action.as_deref(),
            context: &self.context,
        }
    }

    /// As [`Parts::key`].
    #[must_use]
    pub fn key(&self, entry_point: &str, engine: &str, door: Door, revision: &str) -> Digest {
        self.parts().key(entry_point, engine, door, revision)
    }

    /// The document as JSON; with `time` for an entry point that reads it
    /// (`context.time`, RFC 3339, and `context.time_ns`).
    #[must_use]
    pub fn to_json(&self, time: Option<&Now>) -> String {
        let mut out = String::with_capacity(self.context.len() + 512);
        out.push_str("{\"identity\":");
        out.push_str(&self.identity.json());
        for (name, part) in [("user", &self.user), ("token", &self.token)] {
            if let Some(part) = part {
                push_member(&mut out, name, &part.json());
            }
        }
        for (name, part) in [("resource", &self.resource), ("action", &self.action)] {
            if let Some(part) = part {
                push_member(&mut out, name, &serde_json::Value::from(&**part).to_string());
            }
        }
        let context = &*self.context;
        match time {
            None => push_member(&mut out, "context", context),
            Some(now) => push_member(&mut out, "context", &with_time(context, now)),
        }
        out.push('}');
        out
    }
}

fn push_member(out: &mut String, name: &str, json: &str) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}

/// Adds the time fields to a JSON object's text.
fn with_time(object: &str, now: &Now) -> Arc<str> {
    let members = object.strip_prefix('{').unwrap_or("}");
    let comma = if members == "}" { "" } else { "," };
    let (text, nanos) = (now.rfc3339(), now.unix_nanos);
    format!("{{\"time\":\"{text}\",\"time_ns\":{nanos}{comma}{members}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::Clock;

    fn input() -> Input {
        Input {
            identity: Fragment::new(&json!({"method": "none"})),
            user: None,
            token: None,
            resource: Some("a\"b".into()),
            action: None,
            context: r#"{"method":"GET"}"#.into(),
        }
    }

    #[test]
    fn s1_5_what_is_absent_is_absent_in_the_document() {
        let document: Value = serde_json::from_str(&input().to_json(None)).unwrap();
        let expected = json!({"identity": {"method": "none"}, "resource": "a\"b", "context": {"method": "GET"}});
        assert_eq!(document, expected);
    }

    #[test]
    fn s6_4_time_is_there_only_where_asked_for_and_is_not_in_the_key() {
        let now = Clock::manual(1_700_000_000).now();
        let document: Value = serde_json::from_str(&input().to_json(Some(&now))).unwrap();
        assert_eq!(document["context"]["time"], "2023-11-14T22:13:20.000Z");
        assert_eq!(document["context"]["time_ns"], 1_700_000_000_000_000_000_i64);
        let bare = Input { context: "{}".into(), ..input() };
        let document: Value = serde_json::from_str(&bare.to_json(Some(&now))).unwrap();
        assert_eq!(document["context"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn s6_5_every_part_is_in_the_key() {
        let base = input();
        let key = |i: &Input| i.key("e", "embedded", Door::Check, "r");
        let mut keys = vec![
            key(&base),
            base.key("f", "embedded", Door::Check, "r"),
            base.key("e", "opa", Door::Check, "r"),
            base.key("e", "embedded", Door::Check, "s"),
            base.key("e", "embedded", Door::Api, "r"),
            key(&Input { identity: Fragment::new(&json!({"method": "jwt"})), ..base.clone() }),
            key(&Input { user: Some(Fragment::new(&json!({}))), ..base.clone() }),
            key(&Input { token: Some(Fragment::new(&json!({}))), ..base.clone() }),
            key(&Input { resource: None, ..base.clone() }),
            key(&Input { resource: None, action: Some("a\"b".into()), ..base.clone() }),
            key(&Input { context: "{}".into(), ..base.clone() }),
        ];
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 11);
    }
}
