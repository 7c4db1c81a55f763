//! Stops calling what fails.
//!
//! Looked at before it was written: `failsafe` 1.3 lets every call through while half-open (a
//! dependency that comes back meets the whole load at once) and knows no slow calls; `tower` has
//! no breaker. What is here is one small state machine, under one lock that is held for no call.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;

use super::CallError;
use crate::model::{HumanDuration, Problem};
use crate::telemetry::{BreakerState, DependencyName, DependencyState};

/// When a dependency is not called for a while because it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerConfig {
    /// So many failures in a row stop the calls; so do twice as many within ten seconds, if they
    /// are at least half of the calls. An answer about one user (4xx) is no failure.
    pub failures: u32,
    /// How long it is not called then; after that one call tries whether it is back.
    pub open_for: HumanDuration,
    /// A call that takes longer counts as a failure, though its answer is used. Left out: four
    /// fifths of `timeout`.
    pub slow_after: Option<HumanDuration>,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, open_for: HumanDuration::secs(1), slow_after: None }
    }
}

/// Longest time without a try: recovery must show within seconds.
const LONGEST: HumanDuration = HumanDuration::secs(60);

impl BreakerConfig {
    /// What is wrong with it beside a call's `timeout`; pointers are relative to it.
    #[must_use]
    pub fn problems(&self, timeout: HumanDuration) -> Vec<Problem> {
        let mut found = Vec::new();
        if self.failures == 0 {
            found.push(Problem::new(
                "/failures",
                "`0` lets no call through",
                "write for example `5`",
            ));
        }
        if self.open_for.0.is_zero() || self.open_for > LONGEST {
            let message = format!("`{}` is out of range", self.open_for);
            found.push(Problem::new("/open_for", message, format!("write 1ms to {LONGEST}")));
        }
        if let Some(slow) = self.slow_after.filter(|slow| slow.0.is_zero() || *slow > timeout) {
            let message = format!("`{slow}` is zero, or beyond `timeout` ({timeout})");
            found.push(Problem::new("/slow_after", message, "write a part of `timeout`"));
        }
        found
    }
}

/// What a call said about the dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// It works.
    Good,
    /// It is there; more is not said.
    There,
    /// It does not work.
    Bad(&'static str),
    /// It gave no answer, or a late one. It counts as if it did not work; but who asks much, or for
    /// much, may have brought that about.
    Mute(&'static str),
}

/// Width of the window in which failures are weighed against all calls.
const WINDOW: Duration = Duration::from_secs(10);
/// So many are remembered whom failures were about.
const BLAMED: usize = 64;
/// What is told of a slow call.
const SLOW: &str = "it answers slowly";

#[derive(Debug)]
pub(super) struct Breaker {
    name: DependencyName,
    failures: u32,
    open_for: Duration,
    slow_after: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    position: Position,
    since: Instant,
    /// Raised at every change: a call that began before it says nothing any more.
    epoch: u64,
    in_a_row: u32,
    /// How many of these no caller can have brought about.
    bad_in_a_row: u32,
    /// While it is not closed: no caller can have brought that about.
    gone: bool,
    window: Window,
    /// Whom failures of late were answers about. Each counts once: one user whom the dependency
    /// chokes on must not take it from all others.
    blamed: Vec<u64>,
    last_error: Option<(&'static str, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Closed,
    /// Until then.
    Open(Instant),
    Probing,
}

#[derive(Debug)]
struct Window {
    start: Instant,
    calls: u32,
    /// Failures of either kind.
    failed: u32,
    /// Those that no caller can have brought about.
    bad: u32,
}

impl Window {
    fn new(start: Instant) -> Self {
        Self { start, calls: 0, failed: 0, bad: 0 }
    }
}

/// Leave to make one call. Dropped without a word, it says nothing of the dependency.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    began: Instant,
    epoch: u64,
    probe: bool,
}

impl Breaker {
    pub(super) fn new(name: DependencyName, config: &BreakerConfig, timeout: Duration) -> Self {
        let now = Instant::now();
        let state = State {
            position: Position::Closed,
            since: now,
            epoch: 0,
            in_a_row: 0,
            bad_in_a_row: 0,
            gone: false,
            window: Window::new(now),
            blamed: Vec::new(),
            last_error: None,
        };
        Self {
            name,
            failures: config.failures.max(1),
            open_for: config.open_for.0,
            slow_after: config.slow_after.map_or(timeout / 5 * 4, |slow| slow.0),
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call at `now` would be refused.
    pub(super) fn refuses(&self, now: Instant) -> bool {
        match self.lock().position {
            Position::Closed => false,
            Position::Open(until) => now < until,
            Position::Probing => true,
        }
    }

    /// Whether it is not called because of failures that no caller can have brought about.
    pub(super) fn is_gone(&self) -> bool {
        let state = self.lock();
        state.gone && state.position != Position::Closed
    }

    /// Leave to make a call at `now`, `about` this one; at most one has it while the breaker is not
    /// closed. Whom failures were about tries later than others: whether it is back for all does
    /// not show with the one whom it chokes on.
    pub(super) fn permit(&self, now: Instant, about: Option<u64>) -> Result<Permit<'_>, CallError> {
        let mut state = self.lock();
        let blamed = about.is_some_and(|about| state.blamed.contains(&about));
        let later = if blamed { self.open_for / 2 } else { Duration::ZERO };
        let probe = match state.position {
            Position::Closed => false,
            Position::Open(until) if now.checked_sub(later).is_some_and(|now| now >= until) => {
                state.turn(Position::Probing, now);
                tracing::debug!(dependency = %self.name, "tried again");
                true
            }
            Position::Open(_) | Position::Probing => return Err(CallError::Open),
        };
        Ok(Permit { breaker: self, began: now, epoch: state.epoch, probe })
    }

    /// How the dependency fares at `now`.
    pub(super) fn state(&self, now: Instant) -> DependencyState {
        let state = self.lock();
        let breaker = match state.position {
            Position::Closed => BreakerState::Closed,
            Position::Open(_) => BreakerState::Open,
            Position::Probing => BreakerState::HalfOpen,
        };
        let ago = |at: Instant| now.saturating_duration_since(at);
        DependencyState {
            name: self.name.clone(),
            breaker,
            since: ago(state.since),
            last_error: state.last_error.map(|(what, at)| (what, ago(at))),
        }
    }

    /// Counts a call and says whether it is one failure too many.
    fn count(&self, state: &mut State, sign: Sign, about: Option<u64>, now: Instant) -> bool {
        if now.saturating_duration_since(state.window.start) >= WINDOW {
            state.window = Window::new(now);
            state.blamed.clear();
        }
        if matches!(sign, Sign::Bad(_) | Sign::Mute(_))
            && about.is_some_and(|about| state.blames(about))
        {
            return false;
        }
        let window = &mut state.window;
        match sign {
            // Whoever can bring about a 4xx moves the breaker neither way.
            Sign::There => return false,
            Sign::Good => {
                window.calls = window.calls.saturating_add(1);
                (state.in_a_row, state.bad_in_a_row) = (0, 0);
                return false;
            }
            Sign::Mute(_) => {}
            Sign::Bad(_) => {
                window.bad = window.bad.saturating_add(1);
                state.bad_in_a_row = state.bad_in_a_row.saturating_add(1);
            }
        }
        window.calls = window.calls.saturating_add(1);
        window.failed = window.failed.saturating_add(1);
        state.in_a_row = state.in_a_row.saturating_add(1);
        let half = window.failed >= window.calls.div_ceil(2);
        let many = half && window.failed >= self.failures.saturating_mul(2);
        let row = state.in_a_row >= self.failures;
        // Among failures that a caller may have brought about, one that he cannot have says too
        // little.
        let (bad, all) =
            if row { (state.bad_in_a_row, state.in_a_row) } else { (window.bad, window.failed) };
        state.gone = matches!(sign, Sign::Bad(_)) && bad > all / 2;
        row || many
    }

    fn open(&self, state: &mut State, error: &'static str, now: Instant) {
        let was = state.position;
        state.turn(Position::Open(now.checked_add(self.open_for).unwrap_or(now)), now);
        if was == Position::Closed {
            tracing::warn!(dependency = %self.name, error, "no longer called: it fails");
        } else {
            tracing::debug!(dependency = %self.name, error, "still fails");
        }
    }
}

impl State {
    /// Whether a failure was about this one before; from now on it was.
    fn blames(&mut self, about: u64) -> bool {
        let known = self.blamed.contains(&about);
        if !known {
            if self.blamed.len() >= BLAMED {
                self.blamed.remove(0);
            }
            self.blamed.push(about);
        }
        known
    }

    fn turn(&mut self, to: Position, now: Instant) {
        // Open and trying again are one state to those who ask since when it fails.
        if self.position == Position::Closed || to == Position::Closed {
            self.since = now;
        }
        self.position = to;
        self.epoch = self.epoch.wrapping_add(1);
        (self.in_a_row, self.bad_in_a_row) = (0, 0);
        self.window = Window::new(now);
    }
}

impl Permit<'_> {
    /// The call ended at `now` with this sign. A bad one may be `about` one user alone.
    pub(super) fn end(mut self, sign: Sign, about: Option<u64>, now: Instant) {
        let breaker = self.breaker;
        let slow = now.saturating_duration_since(self.began) > breaker.slow_after;
        let sign = if slow && sign == Sign::Good { Sign::Mute(SLOW) } else { sign };
        let mut state = breaker.lock();
        if let Sign::Bad(error) | Sign::Mute(error) = sign {
            state.last_error = Some((error, now));
        }
        if state.epoch != self.epoch {
            return;
        }
        match (std::mem::take(&mut self.probe), sign) {
            (true, Sign::Bad(error) | Sign::Mute(error)) => {
                if let Some(about) = about {
                    state.blames(about);
                }
                state.gone = matches!(sign, Sign::Bad(_));
                breaker.open(&mut state, error, now);
            }
            (true, Sign::Good | Sign::There) => {
                let failed_for = now.saturating_duration_since(state.since);
                state.turn(Position::Closed, now);
                state.blamed.clear();
                tracing::info!(dependency = %breaker.name, ?failed_for, "called again: it is back");
            }
            (false, sign) => {
                if breaker.count(&mut state, sign, about, now)
                    && let Sign::Bad(error) | Sign::Mute(error) = sign
                {
                    breaker.open(&mut state, error, now);
                }
            }
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.probe {
            // The one who tried has left; whoever comes next tries.
            let now = Instant::now();
            let mut state = self.breaker.lock();
            if state.epoch == self.epoch {
                state.turn(Position::Open(now), now);
            }
        }
    }
}
