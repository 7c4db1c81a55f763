//! What stands before every call to one dependency, whatever protocol it speaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tower::retry::budget::{Budget as _, TpsBudget};

use super::breaker::{Breaker, Sign};
use super::gate::Gate;
use super::{BreakerConfig, CallError};
use crate::telemetry::{CallOutcome, DependencyHealth, DependencyName, DependencyState, Metrics};

/// Retries may add a fifth to the calls, and one per second, over ten seconds.
const BUDGET: (Duration, u32, f32) = (Duration::from_secs(10), 1, 0.2);

/// The limits of one dependency.
#[derive(Debug, Clone)]
pub struct GuardOptions {
    /// Names the dependency in metrics, logs and on `/ready?verbose`.
    pub name: DependencyName,
    /// Time of a whole call from when it has a place, a second try included. The wait for a place
    /// may take as long once more.
    pub timeout: Duration,
    /// Calls that run at once.
    pub max_in_flight: usize,
    /// Calls that may wait for a place; more are shed.
    pub max_waiting: usize,
    /// When it is not called for a while.
    pub breaker: BreakerConfig,
}

/// What an answer says of the dependency that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A useful answer.
    Useful,
    /// It says no to one caller, or knows no such thing: the dependency works.
    Refusal,
    /// It asks for patience, perhaps with one caller alone: counted as failed, and it moves no
    /// breaker.
    Busy,
    /// The dependency failed; the text is for people and holds no secret.
    Failure(&'static str),
}

/// Whom or what a question is about.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// A hash of it.
    pub whom: u64,
    /// Whether it may also be what the dependency gives no answer on, as on a question that takes
    /// too long. Otherwise only answers that are failures are about it.
    pub silence: bool,
}

/// Lets calls to one dependency through: within a time-out, so many at once, not while it
/// fails, and a second time where that is safe and the budget allows it. Counts them.
pub struct Guard {
    gate: Gate,
    breaker: Breaker,
    budget: TpsBudget,
    metrics: Arc<Metrics>,
    name: DependencyName,
    timeout: Duration,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Guard").field(&self.name).finish()
    }
}

impl DependencyHealth for Guard {
    fn state(&self) -> DependencyState {
        self.breaker.state(Instant::now())
    }
}

impl Guard {
    /// The guard of the dependency that `options` describe, shown by `metrics` while it lives.
    #[must_use]
    pub fn new(options: &GuardOptions, metrics: Arc<Metrics>) -> Arc<Self> {
        let (ttl, least, part) = BUDGET;
        let guard = Arc::new(Self {
            gate: Gate::new(options.max_in_flight, options.max_waiting),
            breaker: Breaker::new(options.name.clone(), &options.breaker, options.timeout),
            budget: TpsBudget::new(ttl, least, part),
            metrics,
            name: options.name.clone(),
            timeout: options.timeout,
        });
        let health: Arc<dyn DependencyHealth> = guard.clone();
        guard.metrics.calls.watch(&health);
        guard
    }

    /// Makes one call with `attempt`, until `deadline` or its own time-out, whichever is first.
    /// `judge` says what an answer means for the dependency. With `safe_to_retry` it is made a
    /// second time where no connection was had or it broke.
    ///
    /// # Errors
    /// If there is no answer in time, or the dependency is not called at all.
    pub async fn call<T, F>(
        &self,
        deadline: Option<Instant>,
        safe_to_retry: bool,
        judge: impl Fn(&T) -> Answer,
        attempt: impl FnMut() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        self.call_about(None, deadline, safe_to_retry, judge, attempt).await
    }

    /// As [`Guard::call`], for a question `about` one user (a hash of who it is): answers that are
    /// failures count once for each, so that one user whom the dependency chokes on does not take
    /// it from all others.
    ///
    /// # Errors
    /// As [`Guard::call`].
    pub async fn call_about<T, F>(
        &self,
        about: Option<About>,
        deadline: Option<Instant>,
        safe_to_retry: bool,
        judge: impl Fn(&T) -> Answer,
        attempt: impl FnMut() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let started = Instant::now();
        let result = self.within(deadline, safe_to_retry, (&judge, about), attempt).await;
        let outcome = match &result {
            Ok(answer) => Some(judge(answer).outcome()),
            Err(error) => error.outcome(),
        };
        if let Some(outcome) = outcome {
            self.metrics.calls.ended(&self.name, outcome, started.elapsed());
        }
        result
    }

    async fn within<T, F>(
        &self,
        deadline: Option<Instant>,
        safe_to_retry: bool,
        judge: (&impl Fn(&T) -> Answer, Option<About>),
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        // A full queue must not hide that nothing is called anyway.
        if self.breaker.refuses(Instant::now()) {
            return Err(CallError::Open);
        }
        // A queue is the callers' doing: waiting in it says nothing of the dependency, and takes
        // nothing from the time that the call itself has.
        let (until, _) = self.until(deadline);
        let entered = tokio::time::timeout_at(until.into(), self.gate.enter()).await;
        let _place = entered.map_err(|_| CallError::Shed)??;
        self.budget.deposit();
        let (until, whole) = self.until(deadline);
        let first = self.once((until, whole), judge, attempt()).await;
        let again = safe_to_retry
            && first
                .as_ref()
                .is_err_and(|error| error.is_unreachable() || *error == CallError::Broken)
            && !self.breaker.refuses(Instant::now())
            && self.budget.withdraw();
        if !again {
            return first;
        }
        self.metrics.calls.retry(&self.name);
        match self.once((until, false), judge, attempt()).await {
            Err(CallError::Open) => first,
            second => second,
        }
    }

    /// Until when a call may take from now on, and whether that is its whole time-out.
    fn until(&self, deadline: Option<Instant>) -> (Instant, bool) {
        let now = Instant::now();
        let own = now.checked_add(self.timeout).unwrap_or(now);
        match deadline {
            Some(deadline) if deadline < own => (deadline, false),
            _ => (own, true),
        }
    }

    /// Whether the dependency is not called because of failures that no caller can have brought
    /// about, neither by asking much nor by what is asked.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.breaker.is_gone()
    }

    async fn once<T>(
        &self,
        (until, whole): (Instant, bool),
        (judge, about): (&impl Fn(&T) -> Answer, Option<About>),
        attempt: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let permit = self.breaker.permit(Instant::now(), about.map(|about| about.whom))?;
        let ended = tokio::time::timeout_at(until.into(), attempt).await;
        let result = ended.unwrap_or(Err(CallError::Timeout));
        let sign = match &result {
            Ok(answer) => Some(judge(answer).sign()),
            // Who had no time says nothing of who would have answered.
            Err(CallError::Timeout) if !whole => None,
            Err(error) => sign(*error),
        };
        if let Some(sign) = sign {
            let tells = |about: &About| match &result {
                Ok(_) => true,
                Err(error) => about.silence && !error.is_unreachable(),
            };
            permit.end(sign, about.filter(tells).map(|about| about.whom), Instant::now());
        }
        result
    }
}

impl Answer {
    fn outcome(self) -> CallOutcome {
        match self {
            Self::Useful => CallOutcome::Ok,
            Self::Refusal => CallOutcome::Refused,
            Self::Busy | Self::Failure(_) => CallOutcome::Failed,
        }
    }

    fn sign(self) -> Sign {
        match self {
            Self::Useful => Sign::Good,
            Self::Refusal | Self::Busy => Sign::There,
            Self::Failure(what) => Sign::Bad(what),
        }
    }
}

/// What an error says of the dependency; nothing where it was not called.
fn sign(error: CallError) -> Option<Sign> {
    match error {
        CallError::Shed | CallError::Open | CallError::Invalid(_) => None,
        // One user's answer may be too large.
        CallError::TooLarge => Some(Sign::There),
        CallError::Unreachable
        | CallError::NoName
        | CallError::NotListening
        | CallError::NoTls
        | CallError::Refused(_) => Some(Sign::Bad(error.as_str())),
        CallError::SlowConnect | CallError::Timeout | CallError::Broken => {
            Some(Sign::Mute(error.as_str()))
        }
    }
}
