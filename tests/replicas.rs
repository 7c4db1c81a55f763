//! Two replicas behind one Envoy with the shipped settings of `envoy/water-data.yaml`: one of them
//! is ended, killed and started again in traffic.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::harness::{Ask, Process, Setup, Token, World, port};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const OTHER: &str = "/cwms-data/timeseries?office=SWT";
/// Threads that ask one request after another.
const CLIENTS: usize = 4;
/// How long a client waits between two requests.
const PAUSE: Duration = Duration::from_millis(2);

/// One replica is the world's own; this is the other.
struct Replica {
    check: u16,
    admin: u16,
    process: Option<Process>,
}

impl Replica {
    fn start(&mut self, world: &World) {
        let path = world.folder().join("portcullis.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let text = text
            .replace(&format!(":{}", world.ports.check), &format!(":{}", self.check))
            .replace(&format!(":{}", world.ports.admin), &format!(":{}", self.admin));
        let path = world.folder().join("second.yaml");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.arg("serve").arg("--config").arg(path);
        let mut process = Process::start("second", world.folder(), &mut command);
        let ready = || Ask::get("/ready").try_send(self.admin).is_ok_and(|a| a.status == 200);
        process.wait_for(ready);
        self.process = Some(process);
    }

    /// Checks that it answered since it started.
    fn checks(&self) -> f64 {
        let text = Ask::get("/metrics").send(self.admin).text();
        let lines = text.lines().filter(|line| line.starts_with("portcullis_checks_total{"));
        let value = |line: &str| line.split_once("} ")?.1.split(' ').next()?.parse::<f64>().ok();
        lines.filter_map(value).sum()
    }

    /// Waits until Envoy asks it: nobody tells Envoy, it finds it again by itself. `health_checks`
    /// of the file asks every two seconds; the rest is for a loaded machine.
    fn asked(&self) {
        let start = Instant::now();
        while self.checks() < 1.0 {
            assert!(start.elapsed() < Duration::from_secs(15), "Envoy does not ask it");
            sleep(Duration::from_millis(20));
        }
    }
}

fn two() -> (World, Replica) {
    let mut replica = Replica { check: port(), admin: port(), process: None };
    let one = "address: portcullis, port_value: 9191 } }";
    let other = format!(
        "{one}\n        - endpoint:\n            address: {{ socket_address: {{ address: portcullis, \
         port_value: {} }} }}",
        replica.check
    );
    let world = Setup::of("envoy/water-data.yaml")
        .envoy(one, &other)
        .portcullis("check: { budget", "audit: { directory: audit }\ncheck: { budget")
        .unhurried()
        .envoy("timeout: 2.5s", "timeout: 10s")
        .envoy("max_interval: 2.5s", "max_interval: 10s")
        .start();
    replica.start(&world);
    (world, replica)
}

/// An answer that was not the right one; read by its `Debug`.
#[derive(Debug)]
#[expect(dead_code, reason = "`told` is for the message of a failed test")]
struct Wrong {
    began: Instant,
    ended: Instant,
    told: String,
}

#[derive(Debug, Default)]
struct Tally {
    right: usize,
    wrong: Vec<Wrong>,
}

/// Asks until `stop`: an allow, a denial and a challenge by turns.
fn traffic(port: u16, token: &str, stop: &AtomicBool) -> Tally {
    let asks = [
        (Ask::get(OWN).bearer(token), 200),
        (Ask::get(OTHER).bearer(token), 403),
        (Ask::get(OWN), 401),
        (Ask::get("/cwms-data/offices"), 200),
    ];
    let mut tally = Tally::default();
    for (ask, status) in asks.iter().cycle() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        match ask.clone().try_send(port) {
            Ok(answer) if answer.status == *status => tally.right += 1,
            other => tally.wrong.push(Wrong {
                began,
                ended: Instant::now(),
                told: format!("{status} expected, {other:?}"),
            }),
        }
        sleep(PAUSE);
    }
    tally
}

/// The clients end with a story that fails, too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `story` in steady traffic and returns what all clients saw.
fn in_traffic<T>(world: &World, story: impl FnOnce() -> T) -> (Tally, T) {
    let stop = AtomicBool::new(false);
    let token = Token::of("dam.operator").sign();
    std::thread::scope(|scope| {
        let clients = start(scope, world.ports.envoy, &token, &stop);
        let told = {
            let _stop = Stop(&stop);
            story()
        };
        let mut all = Tally::default();
        for client in clients {
            let tally = client.join().unwrap();
            all.right += tally.right;
            all.wrong.extend(tally.wrong);
        }
        (all, told)
    })
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    port: u16,
    token: &'scope str,
    stop: &'scope AtomicBool,
) -> Vec<ScopedJoinHandle<'scope, Tally>> {
    (0..CLIENTS).map(|_| scope.spawn(move || traffic(port, token, stop))).collect()
}

#[test]
fn o01_a_replica_that_ends_in_traffic_fails_no_request() {
    let (world, mut replica) = two();
    let (tally, ()) = in_traffic(&world, || {
        replica.asked();
        sleep(Duration::from_secs(1));
        let mut process = replica.process.take().unwrap();
        process.signal("TERM");
        let status = process.ended(Duration::from_secs(15));
        assert!(status.success(), "{status}");
        sleep(Duration::from_secs(1));
        replica.start(&world);
        replica.asked();
        sleep(Duration::from_millis(500));
    });
    assert!(tally.wrong.is_empty(), "{} right, {:#?}", tally.right, tally.wrong);
    assert!(tally.right > 100, "{} are no traffic", tally.right);
    assert_eq!(world.counted("error"), 0);
}

#[test]
fn o01_a_replica_that_is_killed_in_traffic_fails_at_most_what_it_had_in_flight() {
    let (world, mut replica) = two();
    let (tally, (before, after)) = in_traffic(&world, || {
        replica.asked();
        sleep(Duration::from_secs(1));
        let before = Instant::now();
        let mut process = replica.process.take().unwrap();
        process.signal("KILL");
        assert!(!process.ended(Duration::from_secs(15)).success());
        let after = Instant::now();
        sleep(Duration::from_secs(2));
        replica.start(&world);
        replica.asked();
        sleep(Duration::from_millis(500));
        (before, after)
    });
    let in_flight = |wrong: &Wrong| wrong.began <= after && wrong.ended >= before;
    let others: Vec<_> = tally.wrong.iter().filter(|wrong| !in_flight(wrong)).collect();
    assert!(others.is_empty(), "{} right, {others:#?}", tally.right);
    assert!(tally.wrong.len() <= CLIENTS, "{:#?}", tally.wrong);
    assert!(tally.right > 100, "{} are no traffic", tally.right);
}

#[test]
fn o01_a_killed_replica_takes_its_own_checks_with_it_and_no_others() {
    let (world, mut replica) = two();
    // Envoy asks both; neither knows the user yet.
    while replica.checks() < 1.0 {
        assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
        sleep(PAUSE);
    }
    let allowed = || world.metric("portcullis_checks_total", &["outcome=\"allow\""]);
    let (before, forwarded) = (allowed(), world.backend.requests());
    world.backend.user_delay.store(500, Ordering::SeqCst);
    let token = Token::of("dam.operator").sign();
    let own = || world.ask(Ask::get(OWN).bearer(&token));
    let answers: Vec<_> = std::thread::scope(|scope| {
        // Both replicas get some, and each waits for the user API.
        let asks: Vec<_> = (0..8).map(|_| scope.spawn(own)).collect();
        let start = Instant::now();
        while world.backend.user_calls() < 2 {
            assert!(start.elapsed() < Duration::from_secs(15), "one replica was not asked");
            sleep(Duration::from_millis(1));
        }
        let mut process = replica.process.take().unwrap();
        process.signal("KILL");
        process.ended(Duration::from_secs(15));
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    let right = answers.iter().filter(|answer| answer.status == 200).count();
    let failed = answers.iter().filter(|answer| answer.status == 503).count();
    assert_eq!(right + failed, answers.len(), "{answers:?}");
    assert!(right > 0 && failed > 0, "both were deciding: {answers:?}");
    let right = u32::try_from(right).unwrap();
    assert!((allowed() - before - f64::from(right)).abs() < 0.1, "the other answered: {answers:?}");
    assert_eq!(world.backend.requests() - forwarded, u64::from(right), "{answers:?}");
    // Envoy may still try the dead one; no request fails for that.
    for _ in 0..20 {
        let answer = own();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}
