//! The loops: open (requests begin when the schedule says so) and closed (when an answer came).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::deck::{Deck, Kind};
use super::plan::Plan;
use super::wire::Said;

type Anything = Box<dyn std::error::Error + Send + Sync>;

/// Longest latency that is told apart, in microseconds.
const LONGEST: u64 = 120_000_000;
/// How long after the end requests still begin that were due before it.
const GRACE: Duration = Duration::from_secs(1);
/// Wrong answers that are shown in full.
const SHOWN: usize = 8;

/// What one place, or all of them, measured.
pub(crate) struct Tally {
    /// From the intended start to the answer, microseconds.
    pub(crate) latency: Histogram<u64>,
    /// From the intended start to the real one, microseconds; empty in a closed loop.
    pub(crate) late: Histogram<u64>,
    /// How often each kind got each answer.
    pub(crate) answers: BTreeMap<(usize, Said), u64>,
    /// Answers that were not the expected ones.
    pub(crate) wrong: u64,
    /// Some of them, in words.
    pub(crate) shown: Vec<String>,
    /// When the last answer came.
    pub(crate) last: Option<Instant>,
}

impl Tally {
    fn new() -> Result<Self, Anything> {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, 3);
        let (latency, late) = (histogram()?, histogram()?);
        let (answers, shown) = (BTreeMap::new(), Vec::new());
        Ok(Self { latency, late, answers, wrong: 0, shown, last: None })
    }

    fn add(&mut self, other: Self) -> Result<(), Anything> {
        self.latency.add(&other.latency)?;
        self.late.add(&other.late)?;
        for (answer, n) in other.answers {
            *self.answers.entry(answer).or_default() += n;
        }
        self.wrong += other.wrong;
        self.shown.extend(other.shown);
        self.shown.truncate(SHOWN);
        self.last = self.last.max(other.last);
        Ok(())
    }

    fn answered(&mut self, place: usize, kind: &Kind, answer: Result<Said, Anything>) {
        let (said, error) = match answer {
            Ok(said) => (said, None),
            Err(error) => (Said::default(), Some(error)),
        };
        let expect = &kind.expect;
        let right = error.is_none()
            && said.status == expect.status
            && expect.reason.as_ref().is_none_or(|reason| *reason == said.reason)
            && expect.sets.is_none_or(|sets| sets == said.sets);
        if !right {
            self.wrong += 1;
            if self.shown.len() < SHOWN {
                let why = error.map(|error| format!(" ({error})")).unwrap_or_default();
                self.shown.push(format!("{}: {said:?}{why}, expected {expect:?}", kind.name));
            }
        }
        *self.answers.entry((place, said)).or_default() += 1;
    }
}

/// What all places share.
struct Shared {
    plan: Plan,
    deck: Arc<Deck>,
    begin: Instant,
    /// Requests that were begun.
    next: AtomicU64,
    /// Requests that are due, in an open loop.
    due: Semaphore,
    over: AtomicBool,
    /// How many requests there may be: of an open loop, once its schedule is at its end, as many
    /// as were due.
    planned: AtomicU64,
}

impl Shared {
    fn end(&self) -> Instant {
        self.begin + Duration::from_secs_f64(self.plan.seconds)
    }

    /// Lets every place that waits for its turn see that there is none.
    fn wake(&self) {
        self.due.add_permits(self.plan.connections * self.plan.streams);
    }

    fn intended(&self, n: u64) -> Option<Instant> {
        #[expect(clippy::cast_precision_loss, reason = "a run has fewer than 2^53 requests")]
        let offset = n as f64 / self.plan.rate?;
        Some(self.begin + Duration::from_secs_f64(offset))
    }
}

/// What a run came to.
pub(crate) struct Driven {
    /// All places together.
    pub(crate) tally: Tally,
    /// When the clock started.
    pub(crate) began: Instant,
    /// Requests that the schedule had.
    pub(crate) planned: u64,
    /// How late the schedule itself said that requests are due, microseconds.
    pub(crate) lag: Histogram<u64>,
}

/// Drives until the plan's end.
pub(crate) async fn run(plan: Plan, deck: Arc<Deck>) -> Result<Driven, Anything> {
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        let connection = Connection::open(plan.target, plan.mode).await?;
        for _ in 1..plan.streams {
            connections.extend(connection.share());
        }
        connections.push(connection);
    }
    let (due, over) = (Semaphore::new(0), AtomicBool::new(false));
    let began = Instant::now() + Duration::from_millis(20);
    let lag = Histogram::new_with_bounds(1, LONGEST, 3)?;
    let (next, planned) = (AtomicU64::new(0), AtomicU64::new(plan.requests));
    let shared = Arc::new(Shared { plan, deck, begin: began, next, due, over, planned });
    let clock = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || schedule(&shared, lag))
    };
    let mut places = JoinSet::new();
    for connection in connections {
        let shared = Arc::clone(&shared);
        places.spawn(async move { place(connection, &shared).await });
    }
    let mut tally = Tally::new()?;
    while let Some(one) = places.join_next().await {
        tally.add(one??)?;
    }
    shared.over.store(true, Ordering::Relaxed);
    let (planned, lag) = clock.join().map_err(|_| "the schedule's thread failed")?;
    Ok(Driven { tally, began, planned, lag })
}

/// Says when requests are due, on a thread of its own so that no answer can hold it up.
fn schedule(shared: &Shared, mut lag: Histogram<u64>) -> (u64, Histogram<u64>) {
    let end = shared.end();
    let mut n = 0;
    while let Some(at) = shared.intended(n) {
        if at >= end || n >= shared.plan.requests || shared.over.load(Ordering::Relaxed) {
            break;
        }
        if let Some(wait) = at.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        lag.saturating_record(micros(at, Instant::now()));
        shared.due.add_permits(1);
        n += 1;
    }
    // What is due may still begin for a while; a place that finds nothing more ends.
    if shared.plan.rate.is_some() {
        let last = Instant::now() + GRACE;
        while shared.due.available_permits() > 0
            && Instant::now() < last
            && !shared.over.load(Ordering::Relaxed)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        if shared.due.available_permits() > 0 {
            shared.over.store(true, Ordering::Relaxed);
        }
        shared.planned.store(n, Ordering::Relaxed);
        shared.wake();
    }
    (n, lag)
}

/// One request after the other.
async fn place(mut connection: Connection, shared: &Shared) -> Result<Tally, Anything> {
    let mut tally = Tally::new()?;
    let plan = &shared.plan;
    let patience = Duration::from_millis(plan.timeout_ms);
    tokio::time::sleep_until(shared.begin.into()).await;
    loop {
        if plan.rate.is_some() {
            shared.due.acquire().await?.forget();
        } else if Instant::now() >= shared.end() {
            break;
        }
        let n = shared.next.fetch_add(1, Ordering::Relaxed);
        if n >= shared.planned.load(Ordering::Relaxed) || shared.over.load(Ordering::Relaxed) {
            break;
        }
        let Some((kind_place, kind, item)) = shared.deck.draw(n) else {
            shared.over.store(true, Ordering::Relaxed);
            shared.wake();
            break;
        };
        let now = Instant::now();
        let from = shared.intended(n).unwrap_or(now);
        let answer = tokio::time::timeout(patience, connection.ask(item)).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer in time".into()));
        let done = Instant::now();
        tally.latency.saturating_record(micros(from, done));
        if plan.rate.is_some() {
            tally.late.saturating_record(micros(from, now));
        }
        let broken = answer.is_err();
        tally.answered(kind_place, kind, answer);
        tally.last = Some(done);
        if broken {
            // After a time-out the connection may bring the old answer.
            connection = Connection::open(plan.target, plan.mode).await?;
        }
        if plan.think_ms > 0 {
            tokio::time::sleep(Duration::from_millis(plan.think_ms)).await;
        }
    }
    Ok(tally)
}

fn micros(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(LONGEST).max(1)
}
