//! The only reader of wall time and of CPU time.
//!
//! Everything that decides by time takes a [`Now`] that was read once, at the start of a Check,
//! so that a decision can be replayed exactly and a test can move time.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// One reading of wall and monotonic time.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Nanoseconds since the Unix epoch.
    pub unix_nanos: i64,
    /// Monotonic time of the same reading.
    pub mono: Instant,
}

/// A time of ours as libraries want it; before the epoch it is the epoch.
#[must_use]
pub fn system_time(unix_nanos: i64) -> SystemTime {
    let after = Duration::from_nanos(u64::try_from(unix_nanos).unwrap_or(0));
    UNIX_EPOCH.checked_add(after).unwrap_or(UNIX_EPOCH)
}

/// The CPU time that the calling thread has used so far. It stands still while the thread waits
/// or other threads keep the processors from it.
#[must_use]
pub fn thread_cpu() -> Duration {
    let read = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(read).unwrap_or_default()
}

impl Now {
    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub fn unix_secs(&self) -> i64 {
        self.unix_nanos.div_euclid(NANOS_PER_SEC)
    }

    /// RFC 3339 in UTC with milliseconds, such as `2026-11-30T12:00:00.250Z`.
    #[must_use]
    pub fn rfc3339(&self) -> String {
        chrono::DateTime::from_timestamp_nanos(self.unix_nanos)
            .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
    }

    /// The reading `by` later; saturates instead of overflowing.
    #[must_use]
    pub fn plus(&self, by: Duration) -> Self {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        Self {
            unix_nanos: self.unix_nanos.saturating_add(nanos),
            mono: self.mono.checked_add(by).unwrap_or(self.mono),
        }
    }
}

/// When something stops being valid: by wall or by monotonic time, whichever is first, so that
/// a clock that is set back prolongs nothing. Two numbers, as every cached value has one.
#[derive(Debug, Clone, Copy)]
pub struct Expiry {
    unix_nanos: i64,
    /// As [`ticks`] counts; the largest is never.
    mono: NonZeroU64,
}

/// Monotonic time in nanoseconds, as a number that rises from the middle of its range: an instant
/// may lie before the first that was asked about.
fn ticks(at: Instant) -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    const MIDDLE: u64 = 1 << 63;
    let nanos = |of: Duration| u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    match at.checked_duration_since(*FIRST) {
        Some(after) => MIDDLE.saturating_add(nanos(after)),
        None => MIDDLE.saturating_sub(nanos(FIRST.saturating_duration_since(at))),
    }
}

impl Expiry {
    /// `lifetime` from `now` on; a lifetime too long to represent never ends by monotonic time.
    #[must_use]
    pub fn after(now: &Now, lifetime: Duration) -> Self {
        let nanos = i64::try_from(lifetime.as_nanos()).unwrap_or(i64::MAX);
        let mono = u64::try_from(lifetime.as_nanos()).unwrap_or(u64::MAX);
        let mono = ticks(now.mono).saturating_add(mono);
        Self {
            unix_nanos: now.unix_nanos.saturating_add(nanos),
            mono: NonZeroU64::new(mono).unwrap_or(NonZeroU64::MIN),
        }
    }

    /// At `unix_secs` of wall time; monotonic time ends it as many seconds from `now`.
    #[must_use]
    pub fn at_unix_secs(now: &Now, unix_secs: i64) -> Self {
        let unix_nanos = unix_secs.saturating_mul(NANOS_PER_SEC);
        let left = u64::try_from(unix_nanos.saturating_sub(now.unix_nanos)).unwrap_or(0);
        Self { unix_nanos, ..Self::after(now, Duration::from_nanos(left)) }
    }

    /// The earlier of the two, on each clock.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { unix_nanos: self.unix_nanos.min(other.unix_nanos), mono: self.mono.min(other.mono) }
    }

    /// Whether `now` lies at or past the end.
    #[must_use]
    pub fn is_past(&self, now: &Now) -> bool {
        now.unix_nanos >= self.unix_nanos || ticks(now.mono) >= self.mono.get()
    }

    /// Wall time of the end, nanoseconds since the Unix epoch.
    #[must_use]
    pub fn unix_nanos(&self) -> i64 {
        self.unix_nanos
    }

    /// What is left of it at `now`; zero once it is past.
    #[must_use]
    pub fn left(&self, now: &Now) -> Duration {
        let wall = u64::try_from(self.unix_nanos.saturating_sub(now.unix_nanos)).unwrap_or(0);
        Duration::from_nanos(wall.min(self.mono.get().saturating_sub(ticks(now.mono))))
    }
}

/// Reads the time: the system's, or one that a test moves by hand.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<Manual>>);

#[derive(Debug)]
struct Manual {
    start: Now,
    offset: AtomicI64,
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands at `unix_secs` until it is moved with [`Clock::advance`].
    #[must_use]
    pub fn manual(unix_secs: i64) -> Self {
        let start =
            Now { unix_nanos: unix_secs.saturating_mul(NANOS_PER_SEC), mono: Instant::now() };
        Self(Some(Arc::new(Manual { start, offset: AtomicI64::new(0) })))
    }

    /// Moves a manual clock forward; the system's clock is left alone.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.0 {
            let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
            manual.offset.fetch_add(nanos, Ordering::SeqCst);
        }
    }

    /// One reading.
    #[must_use]
    pub fn now(&self) -> Now {
        if let Some(manual) = &self.0 {
            let offset = u64::try_from(manual.offset.load(Ordering::SeqCst)).unwrap_or(0);
            return manual.start.plus(Duration::from_nanos(offset));
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { unix_nanos: i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX), mono: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t10_a_huge_lifetime_neither_panics_nor_ends_at_once() {
        let now = Clock::manual(1_000).now();
        let expiry = Expiry::after(&now, Duration::from_secs(u64::MAX));
        assert!(!expiry.is_past(&now));
        let expiry = Expiry::at_unix_secs(&now, i64::MAX);
        assert!(!expiry.is_past(&now));
        assert!(Expiry::at_unix_secs(&now, i64::MIN).is_past(&now));
    }

    #[test]
    fn an_instant_before_the_first_is_as_far_from_its_end_as_any() {
        let now = Clock::manual(1_000).now();
        let Some(mono) = now.mono.checked_sub(Duration::from_mins(1)) else { return };
        // The first is the later one, if this test is the first to ask.
        assert!(!Expiry::after(&now, Duration::from_secs(1)).is_past(&now));
        let before = Now { mono, ..now };
        let expiry = Expiry::after(&before, Duration::from_secs(50));
        assert_eq!(expiry.left(&before), Duration::from_secs(50));
        assert!(!expiry.is_past(&before.plus(Duration::from_secs(49))));
        assert!(expiry.is_past(&before.plus(Duration::from_secs(50))));
        assert_eq!(size_of::<Option<Expiry>>(), 16);
    }

    #[test]
    fn s6_6_an_expiry_ends_by_whichever_clock_is_first() {
        let clock = Clock::manual(1_000);
        let start = clock.now();
        let expiry = Expiry::after(&start, Duration::from_secs(10));
        let set_back = Now { unix_nanos: 0, mono: start.plus(Duration::from_secs(11)).mono };
        assert!(expiry.is_past(&set_back));
        let set_forward = Now { unix_nanos: start.unix_nanos + 10 * NANOS_PER_SEC, ..start };
        assert!(expiry.is_past(&set_forward));
        assert!(!expiry.is_past(&start.plus(Duration::from_secs(9))));
    }
}
