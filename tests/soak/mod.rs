//! A soak: steady mixed traffic while the parts break at random. No answer may allow what is not
//! permitted, none may be late, and memory stays flat. `SOAK_SECONDS` (60), `SOAK_SEED` and
//! `SOAK_RATE` (requests per second) say what is run; ten minutes is the long form.

mod faults;
mod model;
mod planted;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::harness::redis::Server;
use crate::harness::sentinel::watched;
use crate::harness::{Folder, Opa, Process, Setup, World, port, root};
use crate::kit::token::now;
use crate::parity::generate::Generator;

use faults::{More, Parts};
use model::{Case, Client, Tokens};

/// Who asks at once.
const CLIENTS: u64 = 4;
/// An answer that comes later is a stuck request.
const LATEST: Duration = Duration::from_secs(2);
/// How long after a fault an answer may still be unavailable.
const RECOVERY: Duration = Duration::from_secs(5);
/// So many problems are told in full.
const TOLD: usize = 20;

/// Whose answers a fault may make unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Nobody,
    Users,
    All,
}

#[derive(Debug)]
struct Window {
    what: String,
    reach: Reach,
    from: Instant,
    to: Option<Instant>,
}

/// What was counted.
#[derive(Debug, Clone, Default)]
struct Tally {
    requests: u64,
    allowed: u64,
    refused: u64,
    unavailable: u64,
    slowest: Duration,
    wrong: usize,
    /// The first ones.
    problems: Vec<String>,
}

/// What the clients and the one who breaks things share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    faults: Mutex<Vec<Window>>,
    tally: Mutex<Tally>,
}

impl Shared {
    fn begin(&self, what: String, reach: Reach) -> usize {
        let mut faults = self.faults.lock().unwrap();
        faults.push(Window { what, reach, from: Instant::now(), to: None });
        faults.len() - 1
    }

    fn end(&self, window: usize) {
        self.faults.lock().unwrap()[window].to = Some(Instant::now());
    }

    /// Whether a fault may have made the answer unavailable.
    fn excused(&self, needs_user: bool, sent: Instant, done: Instant) -> bool {
        let may = |w: &Window| match w.reach {
            Reach::Nobody => false,
            Reach::Users => needs_user,
            Reach::All => true,
        };
        let on = |w: &Window| w.from <= done && w.to.is_none_or(|to| to + RECOVERY >= sent);
        self.faults.lock().unwrap().iter().any(|w| may(w) && on(w))
    }

    /// What is on, for the one who reads of a problem.
    fn lately(&self) -> String {
        let faults = self.faults.lock().unwrap();
        let ago = |w: &Window| w.to.map(|to| to.elapsed());
        let tell = |w: &Window| format!("{} ended {:?} ago", w.what, ago(w));
        faults.iter().rev().take(3).map(tell).collect::<Vec<_>>().join(", ")
    }

    fn ask(&self, case: &Case, port: u16) {
        let (began, sent) = (now(), Instant::now());
        let answer = case.ask.clone().try_send(port);
        let (done, took) = (Instant::now(), sent.elapsed());
        let excused = self.excused(case.needs_user, sent, done);
        let wrong = match &answer {
            Err(error) => Some(format!("no answer: {error}")),
            Ok(_) if took > LATEST => Some(format!("stuck for {took:?}")),
            Ok(answer) => case.wrong(answer, (began, now()), excused),
        };
        let mut tally = self.tally.lock().unwrap();
        tally.requests += 1;
        match answer.map_or(0, |answer| answer.status) {
            200 => tally.allowed += 1,
            503 => tally.unavailable += 1,
            _ => tally.refused += 1,
        }
        tally.slowest = tally.slowest.max(took);
        if let Some(wrong) = wrong {
            tally.wrong += 1;
            if tally.problems.len() < TOLD {
                tally.problems.push(format!("{}: {wrong} [{}]", case.what, self.lately()));
            }
        }
    }
}

/// One soak, seen by the one who breaks things.
struct Run {
    start: Instant,
    length: Duration,
    dice: Generator,
    shared: Arc<Shared>,
    /// Resident memory of Portcullis, by the time into the run.
    memory: Vec<(Duration, u64)>,
}

impl Run {
    fn new(seed: u64, length: Duration) -> Self {
        let (start, shared) = (Instant::now(), Arc::default());
        Self { start, length, dice: Generator::new(seed), shared, memory: Vec::new() }
    }

    /// Waits, and looks at memory meanwhile.
    fn rest(&mut self, parts: &Parts, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let at = self.start.elapsed();
            if self.memory.last().is_none_or(|(last, _)| at > *last + Duration::from_millis(500)) {
                let kib = parts.world.portcullis.as_ref().map_or(0, Process::resident_kib);
                self.memory.push((at, kib));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(250)));
        }
    }

    /// The median of resident memory in a part of the run, in percent of it; KiB.
    fn memory(&self, from: u32, to: u32) -> u64 {
        let part = self.length * from / 100..=self.length * to / 100;
        let in_part = |(at, kib): &(Duration, u64)| part.contains(at).then_some(*kib);
        let mut seen: Vec<_> = self.memory.iter().filter_map(in_part).collect();
        seen.sort_unstable();
        seen[seen.len() / 2]
    }
}

/// Asks at that rate while `during` runs.
fn traffic(world_port: u16, seed: u64, rate: u64, shared: &Shared, during: impl FnOnce()) {
    let tokens = Tokens::make();
    let every = Duration::from_micros(1_000_000 * CLIENTS / rate);
    std::thread::scope(|scope| {
        for client in 1..=CLIENTS {
            let mut client = Client::new(seed.wrapping_add(client), &tokens);
            scope.spawn(move || {
                let mut next = Instant::now();
                while !shared.stop.load(Ordering::SeqCst) {
                    shared.ask(&client.next(), world_port);
                    // What was missed is not caught up with.
                    next = (next + every).max(Instant::now());
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            });
        }
        during();
        shared.stop.store(true, Ordering::SeqCst);
    });
}

fn setup(redis: u16) -> Setup {
    let store = format!(
        "store:\n  redis:\n    url: redis://127.0.0.1:{redis}\n    key: {}\n    timeout: 100ms\n\
         audit: {{ directory: FOLDER/audit }}\nreload: {{ interval: 0s }}\n",
        "marker-".repeat(5)
    );
    // Contexts end soon and there is room for few: the stores behind are asked all the time.
    // The times are wide: what shares the machine is no fault of the service.
    Setup::bare()
        .envoy("timeout: 0.5s", "timeout: 1.2s")
        .portcullis("budget: 400ms", "budget: 1100ms")
        .portcullis("timeout: 350ms", "timeout: 800ms")
        .portcullis("\npolicy:\n", "\npolicy:\n  limits: { time: 500ms }\n  cache: 2MiB\n")
        .portcullis(
            "\nuser_context:\n",
            &format!("\n{store}\nuser_context:\n  ttl: 8s\n  cache: 1MiB\n"),
        )
        .portcullis("algorithms: [RS256", "leeway: 0s\n  algorithms: [RS256")
        .portcullis("paths: [../../policies/cwms]", "paths: [../../policies/cwms, FOLDER/p]")
        .file("p/none.rego", "package none\n\nx := 1\n")
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The outcomes that audit wrote, and how many lines a killed process left torn.
fn audited(world: &World) -> ([u64; 3], u64) {
    let (mut counts, mut torn) = ([0; 3], 0);
    for file in std::fs::read_dir(world.folder().join("audit")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            match event["outcome"].as_str() {
                Some("allow") => counts[0] += 1,
                Some("deny") => counts[1] += 1,
                Some(_) => counts[2] += 1,
                None => torn += 1,
            }
        }
    }
    (counts, torn)
}

/// After the traffic: nothing in flight, and audit knows what Envoy counted.
fn settle(mut world: World, tally: &Tally, killed: u64, rate: u64) {
    let start = Instant::now();
    while world.metric("portcullis_checks_in_flight", &[]) > 0.1 {
        assert!(start.elapsed() < Duration::from_secs(10), "a Check never ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    for line in world.metrics().lines() {
        let told = ["portcullis_dependency_calls_total", "portcullis_store_values"];
        if told.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0") {
            println!("since the last start: {line}");
        }
    }
    let dropped = world.metric("portcullis_audit_events_dropped_total", &[]);
    assert!(dropped < 0.5, "{dropped} audit events were dropped");
    let [ok, denied, error] = world.counts();
    assert_eq!(world.backend.requests(), tally.allowed, "what arrived was answered, and no more");
    assert_eq!(ok, tally.allowed, "Envoy allowed what arrived");
    world.end_portcullis();
    let ([allow, deny, unavailable], torn) = audited(&world);
    println!(
        "Envoy: {ok} ok, {denied} denied, {error} error; \
         audit: {allow} allow, {deny} deny, {unavailable} unavailable, {torn} torn"
    );
    // Only a process that was killed takes what it had not yet written with it.
    let lost = killed * rate;
    assert!(torn <= killed, "{torn} torn lines");
    assert!(allow + lost >= ok && deny + lost >= denied, "an answer without its event");
    // A Check that reached nobody has no event; an event without a Check there is not.
    assert!(allow + deny + unavailable <= ok + denied + error, "an event without a Check");
}

/// The whole run: what it counted, which faults there were, and memory when warm and at the end.
fn soak(
    seed: u64,
    length: Duration,
    rate: u64,
    parts: &mut Parts,
) -> (Tally, Vec<String>, [u64; 2]) {
    let mut run = Run::new(seed, length);
    let shared = Arc::clone(&run.shared);
    traffic(parts.world.ports.envoy, seed, rate, &shared, || {
        let last = run.start + length;
        let until = run.start + length.saturating_sub(RECOVERY * 2);
        faults::break_things(&mut run, parts, until);
        // All must be well for a while, also if the last calm was short.
        let left = last.saturating_duration_since(Instant::now());
        run.rest(parts, left.max(RECOVERY * 6 / 5));
    });
    let tally = shared.tally.lock().unwrap().clone();
    let mut kinds: Vec<_> = shared.faults.lock().unwrap().iter().map(|w| w.what.clone()).collect();
    kinds.sort_unstable();
    (tally, kinds, [run.memory(50, 58), run.memory(92, 110)])
}

#[test]
fn s10_soak_random_faults_cost_no_wrong_allow_no_stuck_request_and_no_memory() {
    let seed = number("SOAK_SEED", now().unsigned_abs());
    let (seconds, rate) = (number("SOAK_SECONDS", 60), number("SOAK_RATE", 200));
    println!("SOAK_SEED={seed} SOAK_SECONDS={seconds} SOAK_RATE={rate}");
    let redis = Server::start(&[]);
    let world = setup(redis.port).start();
    hold(Parts { world, redis, more: None }, seed, seconds, rate);
}

#[test]
fn s10_soak_random_faults_of_opa_sentinel_and_a_full_redis_cost_as_little() {
    let seed = number("SOAK_SEED", now().unsigned_abs());
    // Beside the other one: half of its traffic.
    let (seconds, rate) = (number("SOAK_SECONDS", 60), number("SOAK_RATE", 200) / 2);
    println!("SOAK_SEED={seed} SOAK_SECONDS={seconds} SOAK_RATE={}", rate * 2);
    let (redis, replica, sentinel) = watched();
    let folder = Folder::new();
    let opa = Opa::start(port(), folder.path(), &[&root().join("policies/cwms")]);
    let address = format!("127.0.0.1:{}", sentinel.port);
    let sentinels = format!("sentinels: {{ addresses: [\"{address}\"], master: main }}\n");
    let engine = format!(
        "engine: opa\n  opa: {{ url: \"http://127.0.0.1:{}\", timeout: 500ms }}\n  paths: [",
        opa.port
    );
    let place = format!("url: redis://127.0.0.1:{}\n", redis.port);
    let setup = setup(redis.port).portcullis(&place, &sentinels).portcullis("paths: [", &engine);
    let world = setup.start();
    let more = Some(More { replica, sentinel, opa, folder });
    hold(Parts { world, redis, more }, seed, seconds, rate);
}

/// A whole soak, held against the model.
fn hold(mut parts: Parts, seed: u64, seconds: u64, rate: u64) {
    let length = Duration::from_secs(seconds);
    let (tally, kinds, [warm, end]) = soak(seed, length, rate, &mut parts);
    println!("{} faults: {}", kinds.len(), kinds.join(" "));
    println!("{tally:#?}\nresident: {warm} KiB when warm, {end} KiB at the end");
    assert_eq!(tally.wrong, 0, "SOAK_SEED={seed}: {:#?}", tally.problems);
    assert!(tally.requests > seconds * rate / 4, "hardly any traffic: {tally:?}");
    assert!(tally.unavailable > 0, "no fault was felt");
    // Five minutes after warming up in the long form.
    let most = if seconds >= 600 { 2 * 1024 } else { 16 * 1024 };
    assert!(end <= warm + most, "memory grew from {warm} to {end} KiB");
    let killed = kinds.iter().filter(|kind| *kind == "Killed").count();
    settle(parts.world, &tally, u64::try_from(killed).unwrap(), rate);
}
