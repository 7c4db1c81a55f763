//! What the user API said of one user, and until when that serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use super::ask::Ask;
use crate::clock::{Expiry, Now};
use crate::model::Digest;
use crate::store::{Cached, Life, heap};

/// Pause between two background attempts to fetch one user again.
const PAUSE: Duration = Duration::from_secs(2);
/// Longest pause that the user API's `Retry-After` may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a failure is taken to last where no attempt has shown otherwise.
const FAILURE_LASTS: Duration = Duration::from_mins(1);
const NEVER: i64 = i64::MIN;

/// The user API's answer about one user.
#[derive(Debug)]
pub(super) struct Profile {
    /// What the API said.
    pub(super) answer: Answer,
    /// Hash of what was asked and how.
    pub(super) asked: Digest,
    /// When it was asked.
    pub(super) fetched: Now,
    /// Until when it serves.
    pub(super) expires: Expiry,
    /// Whether it still serves; shared with the contexts made of it, which so need not keep
    /// the profile itself.
    pub(super) state: Arc<State>,
}

/// Whether a profile still serves.
#[derive(Debug)]
pub(super) struct State {
    /// Tells apart the profiles of a process.
    pub(super) serial: u64,
    /// Until when it may serve while the API fails.
    pub(super) stale_until: Expiry,
    life: Life,
    ended: AtomicBool,
    failed_at: AtomicI64,
    next_try: AtomicI64,
}

/// What the user API said of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The profile.
    Known {
        /// Compact JSON text of an object.
        json: Arc<str>,
        /// Whose it says it is, where that is configured.
        owner: Option<Box<str>>,
    },
    /// There is no such user.
    Unknown,
}

/// When a profile was fetched and how long it serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) fetched: Now,
    pub(super) expires: Expiry,
    pub(super) stale_until: Expiry,
    /// How long before its end it is fetched again; zero is never.
    pub(super) refresh_ahead: Duration,
}

fn nanos(of: Duration) -> i64 {
    i64::try_from(of.as_nanos()).unwrap_or(i64::MAX)
}

impl Profile {
    pub(super) fn new(serial: u64, answer: Answer, asked: Digest, span: Span, life: Life) -> Self {
        let never = span.refresh_ahead.is_zero() || answer == Answer::Unknown;
        let next_try = if never {
            i64::MAX
        } else {
            span.expires.unix_nanos().saturating_sub(nanos(span.refresh_ahead))
        };
        let state = State {
            serial,
            stale_until: span.stale_until,
            life,
            ended: AtomicBool::new(false),
            failed_at: AtomicI64::new(NEVER),
            next_try: AtomicI64::new(next_try),
        };
        let (fetched, expires) = (span.fetched, span.expires);
        Self { answer, asked, fetched, expires, state: Arc::new(state) }
    }

    /// Whether it answers what `ask` asks, for the person that `ask` is about.
    pub(super) fn fits(&self, ask: &Ask) -> bool {
        let owned = match &self.answer {
            Answer::Known { owner, .. } => ask.owns(owner.as_deref()),
            Answer::Unknown => true,
        };
        owned && self.asked == ask.asked
    }
}

impl State {
    /// Whether it was replaced, put out or invalidated. Then nothing made of it serves.
    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.life.is_over()
    }

    /// Whether its user was invalidated since its load began.
    pub(super) fn is_invalidated(&self) -> bool {
        self.life.is_over()
    }

    /// Nothing made of it may serve any more.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether a background attempt to fetch it again is due.
    pub(super) fn is_due(&self, now: &Now) -> bool {
        now.unix_nanos >= self.next_try.load(Ordering::Relaxed)
    }

    /// Takes the attempt that is due; true for one caller only.
    pub(super) fn take_attempt(&self, now: &Now) -> bool {
        let due = self.next_try.load(Ordering::Relaxed);
        let next = now.unix_nanos.saturating_add(nanos(PAUSE));
        let order = Ordering::Relaxed;
        now.unix_nanos >= due && self.next_try.compare_exchange(due, next, order, order).is_ok()
    }

    /// An attempt to fetch it again failed at `now`.
    pub(super) fn note_failure(&self, now: &Now, retry_after: Option<u32>) {
        let asked = Duration::from_secs(retry_after.unwrap_or(0).into());
        let pause = asked.clamp(PAUSE, LONGEST_PAUSE);
        self.next_try.store(now.unix_nanos.saturating_add(nanos(pause)), Ordering::Relaxed);
        self.failed_at.store(now.unix_nanos, Ordering::Release);
    }

    /// The API answers again, even if not with a profile.
    pub(super) fn note_answer(&self) {
        self.failed_at.store(NEVER, Ordering::Release);
    }

    /// Whether it may serve although it is past its end: the last attempt to fetch it again
    /// failed, not long ago, and its bound is not reached.
    pub(super) fn may_serve_stale(&self, now: &Now) -> bool {
        let failed_at = self.failed_at.load(Ordering::Acquire);
        let failing =
            failed_at != NEVER && now.unix_nanos.saturating_sub(failed_at) < nanos(FAILURE_LASTS);
        failing && !self.stale_until.is_past(now)
    }
}

impl Cached for Arc<Profile> {
    fn is_past(&self, now: &Now) -> bool {
        self.expires.is_past(now) || self.state.is_over()
    }

    fn bytes(&self) -> usize {
        let text = match &self.answer {
            Answer::Known { json, owner } => {
                heap::shared(json.len())
                    + owner.as_ref().map_or(0, |owner| heap::block(owner.len()))
            }
            Answer::Unknown => 0,
        };
        heap::shared(size_of::<Profile>()) + heap::shared(size_of::<State>()) + text
    }

    fn gone(&self) {
        self.state.end();
    }
}
