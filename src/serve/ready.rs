//! Readiness: true once everything required is there, and false again only while draining.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// One part of the process and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Such as `policies` or `issuer:main`.
    pub name: Arc<str>,
    /// Whether readiness waits for it.
    pub required: bool,
    /// Whether it can do its work now.
    pub ready: bool,
    /// One short sentence for people; no secrets.
    pub state: String,
}

/// Tells the state of every part; the wiring fills it.
pub trait Readiness: Send + Sync + 'static {
    /// Every part, in a stable order.
    fn parts(&self) -> Vec<Part>;
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

/// The process's readiness. A dependency that fails later shows in `?verbose`, metrics and
/// answers, never here: it would take away all replicas at once.
pub struct Ready {
    state: AtomicU8,
    parts: Arc<dyn Readiness>,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready({})", self.state.load(Ordering::Relaxed))
    }
}

impl Ready {
    /// Not ready yet.
    #[must_use]
    pub fn new(parts: Arc<dyn Readiness>) -> Self {
        Self { state: AtomicU8::new(STARTING), parts }
    }

    /// Whether new Checks should come here.
    pub fn is_ready(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            READY => true,
            STARTING if self.parts.parts().iter().all(|part| part.ready || !part.required) => {
                // A drain that began meanwhile stays.
                let (from, to) = (STARTING, READY);
                self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            _ => false,
        }
    }

    /// Whether the process is on its way out.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.state.load(Ordering::Acquire) == DRAINING
    }

    /// From now on it is not ready, for good.
    pub fn drain(&self) {
        self.state.store(DRAINING, Ordering::Release);
    }

    /// Every part with its state.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        self.parts.parts()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Parts(Mutex<[(bool, bool); 2]>);

    impl Readiness for Parts {
        fn parts(&self) -> Vec<Part> {
            let part = |(required, ready)| Part {
                name: "part".into(),
                required,
                ready,
                state: String::new(),
            };
            self.0.lock().unwrap().map(part).to_vec()
        }
    }

    #[test]
    fn s8_3_ready_waits_for_what_is_required_and_then_stays_until_the_drain() {
        let parts = Arc::new(Parts(Mutex::new([(true, false), (false, false)])));
        let ready = Ready::new(parts.clone());
        assert!(!ready.is_ready());
        *parts.0.lock().unwrap() = [(true, true), (false, false)];
        assert!(ready.is_ready());
        *parts.0.lock().unwrap() = [(true, false), (false, false)];
        assert!(ready.is_ready(), "a dependency that fails later removes no replica");
        ready.drain();
        assert!(!ready.is_ready() && ready.is_draining());
    }
}
