//! Decisions in the cache.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::Decision;
use crate::store::{Cached, heap};

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
    let pairs = |list: &Vec<(Box<str>, Box<str>)>| -> usize {
        let texts =
            list.iter().map(|(name, value)| heap::block(name.len()) + heap::block(value.len()));
        heap::block(list.capacity() * size_of::<(Box<str>, Box<str>)>()) + texts.sum::<usize>()
    };
    let shared = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| heap::shared(text.len()));
    heap::shared(size_of::<Decision>())
        + heap::shared(d.id.len())
        + d.message.as_ref().map_or(0, |message| heap::block(message.len()))
        + pairs(&d.headers)
        + pairs(&d.response_headers)
        + shared(&d.constraints)
        + shared(&d.engine_decision_id)
        + heap::object(&d.metadata)
        // A reason of the policy's own.
        + 32
}
