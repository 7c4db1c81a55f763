//! Decisions in the cache.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::Decision;
use crate::store::Cached;

/// A decision in the cache.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) decision: Arc<Decision>,
    /// Epoch of the generations in which its evaluation began.
    pub(super) epoch: u64,
}

impl Cached for Kept {
    fn is_past(&self, now: &Now) -> bool {
        self.decision.expires.is_none_or(|expires| expires.is_past(now))
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.decision)
    }
}

/// What `d` holds on to.
pub(super) fn bytes_of(d: &Decision) -> usize {
    let pairs = |list: &[(Box<str>, Box<str>)]| -> usize {
        list.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    };
    size_of::<Decision>()
        + d.message.as_ref().map_or(0, |message| message.len())
        + pairs(&d.headers)
        + pairs(&d.response_headers)
        + d.constraints.as_ref().map_or(0, |text| text.len())
        + d.metadata.values().map(json_bytes).sum::<usize>()
        // The id and a reason, each with its counts.
        + 128
}

fn json_bytes(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    64 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(json_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + json_bytes(value)).sum()
        }
        _ => 0,
    }
}
