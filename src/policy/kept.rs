//! Decisions in the cache.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::{Decision, Extras, Pairs};
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

/// What `d` holds on to. Names of headers, the revision and the reason are shared by many.
pub(super) fn bytes_of(d: &Decision) -> usize {
    let pairs = |list: &Pairs| {
        let values = list.iter().map(|(_, value)| heap::block(value.len()));
        heap::block(list.listed()) + values.sum::<usize>()
    };
    let shared = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| heap::shared(text.len()));
    let extras = |extras: &Extras| {
        heap::block(size_of::<Extras>())
            + extras.message.as_ref().map_or(0, |message| heap::block(message.len()))
            + pairs(&extras.response_headers)
            + shared(&extras.constraints)
            + shared(&extras.engine_decision_id)
            + heap::object(&extras.metadata)
    };
    heap::shared(size_of::<Decision>()) + pairs(&d.headers) + d.extras.as_deref().map_or(0, extras)
}
