//! What breaks while the traffic runs, by the dice.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Reach, Run};
use crate::harness::redis::Server;
use crate::harness::{Folder, Opa, World, root};
use crate::kit::users;

/// What can break, by part: of one part, one at a time.
const REDIS: [Fault; 4] =
    [Fault::RedisKilled, Fault::RedisPaused, Fault::RedisEmptied, Fault::RecordsExchanged];
/// Beside those where Sentinels say which Redis is the master.
const WATCHED: [Fault; 2] = [Fault::RedisFull, Fault::RedisFailover];
const OPA: [Fault; 3] = [Fault::OpaKilled, Fault::OpaPaused, Fault::OpaReplaced];
const USERS: [Fault; 7] = [
    Fault::Status(500),
    Fault::Status(429),
    Fault::Status(302),
    Fault::Delayed(300),
    Fault::Delayed(10_000),
    Fault::Cut,
    Fault::AnotherPerson,
];
const RELOADS: [Fault; 3] = [Fault::Reload, Fault::BadConfiguration, Fault::BadPolicy];

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    RedisKilled,
    RedisPaused,
    RedisEmptied,
    RecordsExchanged,
    RedisFull,
    RedisFailover,
    OpaKilled,
    OpaPaused,
    OpaReplaced,
    Status(u16),
    Delayed(u64),
    Cut,
    AnotherPerson,
    Reload,
    BadConfiguration,
    BadPolicy,
    Ended,
    Killed,
}

impl Fault {
    /// Whom it may cost an answer.
    fn reach(self) -> Reach {
        match self {
            Self::Ended | Self::Killed | Self::OpaKilled | Self::OpaPaused | Self::OpaReplaced => {
                Reach::All
            }
            Self::Status(_) | Self::Delayed(_) | Self::Cut | Self::AnotherPerson => Reach::Users,
            _ => Reach::Nobody,
        }
    }
}

/// The parts that break.
pub(super) struct Parts {
    pub(super) world: World,
    pub(super) redis: Server,
    pub(super) more: Option<More>,
}

/// What only the second world has.
pub(super) struct More {
    pub(super) replica: Server,
    pub(super) sentinel: Server,
    pub(super) opa: Opa,
    pub(super) folder: Folder,
}

impl More {
    fn restart_opa(&mut self) {
        self.opa.process.signal("KILL");
        self.opa.process.ended(Duration::from_secs(10));
        self.start_opa();
    }

    fn start_opa(&mut self) {
        let policies = root().join("policies/cwms");
        self.opa = Opa::start(self.opa.port, self.folder.path(), &[&policies]);
    }
}

impl Parts {
    fn begin(&mut self, fault: Fault) {
        let backend = &self.world.backend;
        match fault {
            Fault::RedisKilled => self.redis.kill(),
            Fault::RedisPaused => self.redis.signal("STOP"),
            Fault::RedisEmptied => drop(self.redis.say("FLUSHALL")),
            Fault::RecordsExchanged => self.exchange(),
            Fault::RedisFull => self.on_both("CONFIG SET maxmemory 1"),
            Fault::RedisFailover => {
                let more = self.more.as_ref().unwrap();
                // Refused where one is under way.
                more.sentinel.say("SENTINEL FAILOVER main");
            }
            Fault::OpaKilled => {
                let opa = &mut self.more.as_mut().unwrap().opa;
                opa.process.signal("KILL");
                opa.process.ended(Duration::from_secs(10));
            }
            Fault::OpaPaused => self.more.as_ref().unwrap().opa.process.signal("STOP"),
            Fault::OpaReplaced => self.more.as_mut().unwrap().restart_opa(),
            Fault::Status(status) => backend.user_status.store(status, Ordering::SeqCst),
            Fault::Delayed(millis) => backend.user_delay.store(millis, Ordering::SeqCst),
            Fault::Cut => backend.user_cut.store(true, Ordering::SeqCst),
            Fault::AnotherPerson => {
                // The admin's, to whoever asks but himself: nobody may become him.
                let mut profile = users::profile("admin").unwrap();
                profile["user-name"] = json!("SOMEBODY.ELSE");
                *backend.user_profile.lock().unwrap() = Some(profile);
            }
            Fault::Reload => self.reload(|text| {
                let (from, to) = ("policy:\n", "policy:\n  ttl: 4m\n");
                if text.contains(to) { text.replace(to, from) } else { text.replace(from, to) }
            }),
            Fault::BadConfiguration => self.refused_reload(|text| format!("{text}routes: [\n")),
            Fault::BadPolicy => {
                let lax = "package cwms.authz\n\ndefault decision := {\"allow\": true}\n\nbroken(";
                fs::write(self.world.folder().join("p/lax.rego"), lax).unwrap();
                self.refused_reload(str::to_owned);
                fs::remove_file(self.world.folder().join("p/lax.rego")).unwrap();
            }
            Fault::Ended => {
                self.world.end_portcullis();
                self.world.start_portcullis();
            }
            Fault::Killed => {
                let mut process = self.world.portcullis.take().unwrap();
                process.signal("KILL");
                process.ended(Duration::from_secs(10));
                self.world.start_portcullis();
            }
        }
    }

    fn end(&mut self, fault: Fault) {
        let backend = &self.world.backend;
        match fault {
            Fault::RedisKilled => self.redis.run(),
            Fault::RedisPaused => self.redis.signal("CONT"),
            Fault::RedisFull => self.on_both("CONFIG SET maxmemory 0"),
            Fault::OpaKilled => self.more.as_mut().unwrap().start_opa(),
            Fault::OpaPaused => self.more.as_ref().unwrap().opa.process.signal("CONT"),
            Fault::Status(_) => backend.user_status.store(0, Ordering::SeqCst),
            Fault::Delayed(_) => backend.user_delay.store(0, Ordering::SeqCst),
            Fault::Cut => backend.user_cut.store(false, Ordering::SeqCst),
            Fault::AnotherPerson => *backend.user_profile.lock().unwrap() = None,
            _ => {}
        }
    }

    fn on_both(&self, command: &str) {
        self.redis.say(command);
        self.more.as_ref().unwrap().replica.say(command);
    }

    /// Puts one caller's record in another's place, for all that are there.
    fn exchange(&self) {
        let keys = self.redis.say("KEYS *");
        let keys: Vec<_> = keys.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
        for pair in keys.windows(2) {
            self.redis.say(&format!("COPY {} {} REPLACE", pair[0], pair[1]));
        }
    }

    fn reload(&self, edit: impl Fn(&str) -> String) {
        self.hup(edit, "ok");
    }

    fn refused_reload(&self, edit: impl Fn(&str) -> String) {
        let path = self.world.folder().join("portcullis.yaml");
        let good = fs::read_to_string(&path).unwrap();
        self.hup(edit, "failed");
        fs::write(path, good).unwrap();
    }

    /// Edits the configuration and waits for what becomes of it.
    fn hup(&self, edit: impl Fn(&str) -> String, outcome: &str) {
        let path = self.world.folder().join("portcullis.yaml");
        let label = format!("outcome=\"{outcome}\"");
        let count = || self.world.metric("portcullis_config_reloads_total", &[&label]);
        let before = count();
        fs::write(&path, edit(&fs::read_to_string(&path).unwrap())).unwrap();
        let process = self.world.portcullis.as_ref().unwrap();
        process.signal("HUP");
        let start = Instant::now();
        while count() < before + 0.5 {
            let log = || process.output();
            assert!(start.elapsed() < Duration::from_secs(20), "no reload {outcome}: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Breaks parts until `until`; ends with all of them whole.
pub(super) fn break_things(run: &mut Run, parts: &mut Parts, until: Instant) {
    let mut restarts = restarts(run);
    while Instant::now() < until {
        let due = restarts.last().is_some_and(|(at, _)| run.start.elapsed() >= *at);
        let more = parts.more.is_some();
        let faults = if due { vec![restarts.pop().unwrap().1] } else { pick(run, more) };
        let windows: Vec<_> = faults
            .iter()
            .map(|fault| {
                let window = run.shared.begin(format!("{fault:?}"), fault.reach());
                parts.begin(*fault);
                window
            })
            .collect();
        let held = u64::try_from(run.dice.between(200, 2_500)).unwrap();
        run.rest(parts, Duration::from_millis(if due { 0 } else { held }));
        for (fault, window) in faults.iter().zip(windows) {
            parts.end(*fault);
            run.shared.end(window);
        }
        // Every third time long enough that all must be well again.
        let calm = if run.dice.chance(33) { (6_500, 8_000) } else { (100, 1_500) };
        let calm = u64::try_from(run.dice.between(calm.0, calm.1)).unwrap();
        run.rest(parts, Duration::from_millis(calm));
    }
}

/// One fault, or two of different parts.
fn pick(run: &mut Run, more: bool) -> Vec<Fault> {
    let watched = more && run.dice.chance(50);
    let redis = if watched { run.dice.pick(&WATCHED) } else { run.dice.pick(&REDIS) };
    if more && run.dice.chance(40) {
        let opa = run.dice.pick(&OPA);
        return if run.dice.chance(50) { vec![opa, redis] } else { vec![opa] };
    }
    let users = run.dice.pick(&USERS);
    let reload = run.dice.pick(&RELOADS);
    match run.dice.below(10) {
        0 | 1 => vec![redis],
        2..=4 => vec![users],
        5 => vec![reload],
        6 | 7 => vec![redis, users],
        8 => vec![users, reload],
        _ => vec![redis, reload],
    }
}

/// When the service ends and starts again, the last one first: only in the first part of the
/// run, since memory is compared within one process.
fn restarts(run: &mut Run) -> Vec<(Duration, Fault)> {
    let whole = i64::try_from(run.length.as_millis()).unwrap();
    let count = usize::try_from((whole / 100_000).max(2)).unwrap();
    let mut times: Vec<_> =
        (0..count).map(|_| run.dice.between(whole * 8 / 100, whole * 36 / 100)).collect();
    times.sort_unstable();
    let kinds = [Fault::Ended, Fault::Killed].into_iter().cycle();
    let at = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap());
    let mut all: Vec<_> = times.into_iter().map(at).zip(kinds).collect();
    all.reverse();
    all
}
