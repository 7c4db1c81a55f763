//! The Check that a task works for, and its calls to dependencies.
//!
//! A Check that waits for nothing knows nothing of this. The asynchronous journey, and every load
//! that it starts, carry the Check with them as a task-local value; a dependency's client notes
//! its calls there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::header::HeaderMap;
use opentelemetry::KeyValue;

use super::tracer::Tracer;
use super::{Trace, spans};
use crate::clock::Now;

/// Most calls, and most links, of one Check that are told of.
const MAX: usize = 32;

tokio::task_local! {
    static CURRENT: Option<Current>;
}

/// The span that what happens now happens in.
#[derive(Debug, Clone)]
pub struct Current {
    live: Arc<Live>,
    span_id: u64,
}

/// One Check that is decided beyond memory. Loads may outlive it.
#[derive(Debug)]
pub struct Live {
    pub(super) trace: Trace,
    pub(super) at: Now,
    tracer: Arc<Tracer>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Noted),
    /// It has ended; was it told of?
    Ended(bool),
}

/// What was noted beside the stages.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) calls: Vec<Call>,
    pub(super) links: Vec<Link>,
}

/// A load of another Check's that a stage waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// The stage's span.
    pub(super) within: u64,
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
}

/// One call to a dependency, ended.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) span_id: u64,
    pub(super) parent: u64,
    pub(super) name: String,
    pub(super) from: Instant,
    pub(super) to: Instant,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) error: Option<&'static str>,
}

/// A call under way. Dropped without a word, it was cancelled.
#[derive(Debug)]
pub struct Calling {
    current: Current,
    span_id: u64,
    from: Instant,
    ended: bool,
}

/// What is told of a call.
#[derive(Debug)]
pub struct Told {
    /// Such as `GET` or `redis SET`: no path, no key.
    pub name: String,
    /// In the words of OpenTelemetry's semantic conventions.
    pub attributes: Vec<KeyValue>,
    /// Why it failed, if it did; a word of ours.
    pub error: Option<&'static str>,
}

impl Live {
    pub(super) fn new(trace: Trace, at: Now, tracer: Arc<Tracer>) -> Arc<Self> {
        Arc::new(Self { trace, at, tracer, state: Mutex::new(State::Open(Noted::default())) })
    }

    /// The Check itself, as the span that everything below happens in.
    #[must_use]
    pub fn current(self: &Arc<Self>) -> Current {
        Current { span_id: self.trace.span_id, live: Arc::clone(self) }
    }

    /// The Check has ended, and is told of or not; what was noted so far.
    pub(super) fn end(&self, told: bool) -> Noted {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Ended(told)) {
            State::Open(noted) => noted,
            State::Ended(_) => Noted::default(),
        }
    }

    fn note(&self, call: Call) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Open(noted) if noted.calls.len() < MAX => noted.calls.push(call),
            State::Open(_) | State::Ended(false) => {}
            State::Ended(true) => {
                drop(state);
                self.tracer.late(&self.trace, &self.at, call);
            }
        }
    }
}

/// Runs `future` within `current`.
pub fn enter<F: Future>(
    current: Option<Current>,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(current, future)
}

/// Where this task is now; nothing where it works for no traced Check.
#[must_use]
pub fn current() -> Option<Current> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// `future`, to be run by a task of its own, within what is current here.
pub fn carry<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    enter(current(), future)
}

/// Runs `future` within the span of that stage of the current Check.
pub fn stage<F: Future>(
    stage: &'static str,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    let within = |mut now: Current| {
        now.span_id = spans::stage_id(now.live.trace.span_id, stage);
        now
    };
    enter(current().map(within), future)
}

/// The current Check waits for a load that was started by another, or by itself.
pub fn wait_for(other: Option<&Current>) {
    let Some((other, now)) = other.zip(current()) else { return };
    if Arc::ptr_eq(&other.live, &now.live) || !other.live.trace.sampled {
        return;
    }
    let mut state = now.live.state.lock().unwrap_or_else(PoisonError::into_inner);
    if let State::Open(noted) = &mut *state
        && noted.links.len() < MAX
    {
        let (trace_id, span_id) = (other.live.trace.trace_id, other.span_id);
        noted.links.push(Link { within: now.span_id, trace_id, span_id });
    }
}

/// The trace id of the current Check.
#[must_use]
pub fn current_trace_id() -> Option<u128> {
    CURRENT.try_with(|now| now.as_ref().map(|now| now.live.trace.trace_id)).ok().flatten()
}

/// A call to a dependency begins; nothing where it is made for no traced Check.
#[must_use]
pub fn call() -> Option<Calling> {
    let current = current()?;
    let span_id = current.live.tracer.span_id();
    Some(Calling { current, span_id, from: Instant::now(), ended: false })
}

impl Calling {
    /// Tells the dependency in which span it is called, also where the Check is not sampled.
    pub fn inject(&self, headers: &mut HeaderMap) {
        let live = &self.current.live;
        live.tracer.inject(headers, &live.trace, self.span_id);
    }

    /// The call ended. `told` is asked where anybody may hear of it.
    pub fn end(mut self, told: impl FnOnce() -> Told) {
        self.ended = true;
        if self.current.live.tracer.may_tell(&self.current.live.trace) {
            self.note(told());
        }
    }

    fn note(&self, Told { name, attributes, error }: Told) {
        self.current.live.note(Call {
            span_id: self.span_id,
            parent: self.current.span_id,
            name,
            from: self.from,
            to: Instant::now(),
            attributes,
            error,
        });
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if !self.ended && self.current.live.tracer.may_tell(&self.current.live.trace) {
            let (name, error) = ("call".to_owned(), Some("cancelled"));
            self.note(Told { name, attributes: Vec::new(), error });
        }
    }
}
