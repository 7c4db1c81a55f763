//! Which Checks are traced, and how they are handed on.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::header::HeaderMap;

use super::Trace;
use super::config::{AlwaysConfig, Propagation, Sampler, TracingConfig};
use super::context::{Fields, Parent, extract, inject};
use super::export::Queue;
use super::live::{Call, Live};
use super::spans::{CheckSpans, Item};
use crate::clock::Now;
use crate::model::{Door, Reason, Record, Timeline};

/// A step that makes every count of 2⁶⁴ a different, well-mixed number (`SplitMix64`).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Decides which Checks are traced, makes their ids, and hands ended ones to the exporter. It
/// waits for nothing.
#[derive(Debug)]
pub struct Tracer {
    sampler: Sampler,
    /// Of 2⁶³.
    threshold: u64,
    always: AlwaysConfig,
    formats: Box<[Propagation]>,
    trust_client: bool,
    ids: AtomicU64,
    queue: Queue,
}

/// How a Check ended, for its spans.
#[derive(Debug)]
pub struct Ended<'a> {
    /// When it came.
    pub at: Now,
    /// How long it took.
    pub took: Duration,
    /// `allow`, `deny` or `unavailable`.
    pub outcome: &'static str,
    /// Why.
    pub reason: &'a Reason,
    /// The HTTP status of the answer.
    pub status: u16,
    /// What is known of it.
    pub record: &'a Record,
    /// Its asynchronous part, if there was one.
    pub live: Option<&'a Live>,
}

/// The finalizer of `SplitMix64`.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Tracer {
    pub(super) fn new(config: &TracingConfig, queue: Queue) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^63")]
        let threshold = (config.ratio * 9_223_372_036_854_775_808.0) as u64;
        Self {
            sampler: config.sampler,
            threshold,
            always: config.always.clone(),
            formats: config.propagation.as_slice().into(),
            trust_client: config.trust_client,
            ids: AtomicU64::new(RandomState::new().hash_one(0_u8)),
            queue,
        }
    }

    /// A new id; never zero.
    pub(super) fn span_id(&self) -> u64 {
        mix(self.ids.fetch_add(STEP, Ordering::Relaxed)).max(1)
    }

    /// A Check came with the metadata of its call.
    #[must_use]
    pub fn begin(&self, metadata: &impl Fields) -> Trace {
        self.of(extract(metadata, &self.formats))
    }

    /// A question came from a client, whose word counts only where it is trusted.
    #[must_use]
    pub fn begin_for_client(&self, headers: &impl Fields) -> Trace {
        self.of(self.trust_client.then(|| extract(headers, &self.formats)).flatten())
    }

    /// Goes on with the trace that the client's own headers name, where the call itself named
    /// none and clients are trusted.
    pub fn learn(&self, trace: &mut Trace, headers: &impl Fields) {
        if self.trust_client
            && trace.parent.is_none()
            && let Some(parent) = extract(headers, &self.formats)
        {
            *trace = self.of(Some(parent));
        }
    }

    fn of(&self, parent: Option<Parent>) -> Trace {
        let span_id = self.span_id();
        let trace_id = parent.as_ref().map_or_else(
            || u128::from(self.span_id()) << 64 | u128::from(self.span_id()),
            |parent| parent.trace_id,
        );
        let sampled = self.samples(parent.as_ref().map(|parent| parent.sampled), trace_id);
        let (parent, state) = parent.map_or((None, None), |p| (Some(p.span_id), p.state));
        Trace { trace_id, span_id, parent, sampled, state }
    }

    fn samples(&self, parent: Option<bool>, trace_id: u128) -> bool {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the rightmost bits are the random ones"
        )]
        let by_ratio = || (trace_id as u64) >> 1 < self.threshold;
        match (self.sampler, parent) {
            (Sampler::AlwaysOn, _) | (Sampler::ParentbasedAlwaysOn, None) => true,
            (Sampler::AlwaysOff, _) | (Sampler::ParentbasedAlwaysOff, None) => false,
            (Sampler::Traceidratio, _) | (Sampler::ParentbasedTraceidratio, None) => by_ratio(),
            (_, Some(sampled)) => sampled,
        }
    }

    /// Whether a Check that was not sampled may be told of all the same.
    fn chooses_late(&self) -> bool {
        let AlwaysConfig { denials, errors, slow } = &self.always;
        *denials || *errors || slow.is_some()
    }

    /// Whether the Check may be told of at its end.
    pub(super) fn may_tell(&self, trace: &Trace) -> bool {
        trace.sampled || self.chooses_late()
    }

    /// The timeline of a Check that may be told of.
    #[must_use]
    pub fn timeline(&self, trace: &Trace) -> Option<Box<Timeline>> {
        self.may_tell(trace).then(|| Box::new(Timeline::new()))
    }

    /// The Check is decided beyond memory.
    #[must_use]
    pub fn live(self: &Arc<Self>, trace: &Trace, at: Now) -> Arc<Live> {
        Live::new(trace.clone(), at, Arc::clone(self))
    }

    pub(super) fn inject(&self, headers: &mut HeaderMap, trace: &Trace, span_id: u64) {
        let ids = (trace.trace_id, span_id, trace.sampled);
        inject(headers, &self.formats, ids, trace.state.as_ref());
    }

    /// A Check ended; says whether it is told of.
    pub fn end(&self, trace: &Trace, ended: &Ended<'_>) -> bool {
        let slow = self.always.slow.is_some_and(|bound| ended.took >= bound.0);
        let chosen = match ended.outcome {
            "allow" => false,
            "deny" => self.always.denials,
            _ => self.always.errors,
        };
        let told = trace.sampled || slow || chosen;
        let noted = ended.live.map(|live| live.end(told)).unwrap_or_default();
        if told {
            self.queue.offer(Item::Check(Box::new(CheckSpans::new(trace, ended, noted))));
        }
        told
    }

    /// A call ended after its Check, which was told of.
    pub(super) fn late(&self, trace: &Trace, at: &Now, call: Call) {
        self.queue.offer(Item::Late(Box::new((trace.clone(), *at, call))));
    }
}

impl Ended<'_> {
    /// When it ended.
    pub(super) fn cut(&self) -> Instant {
        self.at.mono.checked_add(self.took).unwrap_or(self.at.mono)
    }

    pub(super) fn is_check(&self) -> bool {
        self.record.door == Door::Check
    }
}
