//! The metrics are those that `deploy/README.md` lists, and each outcome moves its own.

mod bounded;
mod drive;
mod exposed;

mod promql;
mod watching;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::{Ask, Setup, Token, World, files};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// Names in the table of metrics.
fn listed() -> BTreeSet<String> {
    let text = files::shipped("deploy/README.md");
    let table = text.split("\n| metric |").nth(1).expect("the table");
    let name = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    table.lines().skip(2).map_while(name).collect()
}

/// What says what is and need not change while a process runs.
const STEADY: [&str; 4] =
    ["portcullis_build_info", "process_start_time_seconds", "process_max_fds", "process_threads"];
/// What a real binary must never show; where it is shown to move is beside it.
const NEVER: [(&str, &str, &str); 1] =
    [("portcullis_panics_total", "src/serve/tests/gate.rs", "metrics.panics.get(), 1")];

#[test]
fn every_metric_is_listed_and_every_listed_one_is_served_and_moves() {
    let seen = drive::all();
    assert_eq!(seen.families, listed());
    let never = |name: &str| {
        NEVER
            .iter()
            .any(|(never, file, text)| *never == name && files::shipped(file).contains(text))
    };
    // One that only another test's world has is named there.
    let tests = tests_of(&crate::harness::root().join("tests"));
    let still: Vec<_> = listed()
        .into_iter()
        .filter(|name| !seen.moved.contains(name) && !STEADY.contains(&name.as_str()))
        .filter(|name| !never(name) && !tests.contains(name.as_str()))
        .collect();
    assert_eq!(still, Vec::<String>::new(), "nothing here moves these");
}

/// The text of all other tests.
fn tests_of(folder: &std::path::Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| !path.ends_with("tests/metrics"))
        .map(|path| match path.extension() {
            _ if path.is_dir() => tests_of(&path),
            Some(kind) if kind == "rs" => std::fs::read_to_string(path).unwrap(),
            _ => String::new(),
        })
        .collect()
}

#[test]
fn the_same_as_json() {
    let world = Setup::quickstart().start();
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
    let json = Ask::get("/metrics/json").send(world.ports.admin).text();
    for name in exposed::families(&world.metrics()) {
        let name = name.strip_suffix("_total").unwrap_or(&name);
        assert!(json.contains(&format!("\"{name}\"")), "{name} not in {json}");
    }
}

/// Counters (whole numbers), and the number of observations of histograms, by series.
fn counters(text: &str) -> BTreeMap<String, i64> {
    let counts = |line: &&str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        name.ends_with("_total") || name.ends_with("_count")
    };
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series.to_owned(), value.parse::<i64>().ok()?))
    };
    text.lines().filter(counts).filter_map(value).collect()
}

/// What moved while `act` ran, without audit (written a moment later) and evictions.
fn moved(world: &World, act: impl FnOnce()) -> BTreeMap<String, i64> {
    let before = counters(&world.metrics());
    act();
    let start = Instant::now();
    while world.metric("portcullis_checks_in_flight", &[]) > 0.1 {
        assert!(start.elapsed() < Duration::from_secs(10), "a Check is in flight for good");
    }
    let after = counters(&world.metrics());
    let by = |series: &String, n: i64| n - before.get(series).copied().unwrap_or(0);
    after
        .iter()
        .map(|(series, n)| (series.trim_start_matches("portcullis_").to_owned(), by(series, *n)))
        .filter(|(series, by)| *by != 0 && !series.starts_with("audit_"))
        .collect()
}

fn check(outcome: &str, reason: &str, route: &str) -> Vec<String> {
    vec![
        format!("checks_total{{outcome=\"{outcome}\",reason=\"{reason}\",route=\"{route}\"}}"),
        format!("check_duration_seconds_count{{outcome=\"{outcome}\"}}"),
    ]
}

fn caches(states: &[(&str, &str)]) -> Vec<String> {
    let series = |(cache, result): &(&str, &str)| {
        format!("cache_requests_total{{cache=\"{cache}\",result=\"{result}\"}}")
    };
    states.iter().map(series).collect()
}

/// What a token that was never seen is looked for in.
const COLD: [(&str, &str); 5] = [
    ("token", "miss"),
    ("token_rejection", "miss"),
    ("context", "miss"),
    ("profile", "miss"),
    ("store", "miss"),
];

fn stages(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("stage_duration_seconds_count{{stage=\"{name}\"}}")).collect()
}

fn call(outcome: &str) -> Vec<String> {
    vec![
        format!("dependency_calls_total{{dependency=\"user_api\",outcome=\"{outcome}\"}}"),
        "dependency_call_duration_seconds_count{dependency=\"user_api\"}".to_owned(),
    ]
}

#[track_caller]
fn exactly(moved: &BTreeMap<String, i64>, parts: &[Vec<String>]) {
    let mut expected = BTreeMap::new();
    parts.concat().into_iter().for_each(|series| *expected.entry(series).or_default() += 1);
    assert_eq!(*moved, expected);
}

#[test]
fn each_outcome_moves_exactly_its_series() {
    let world = Setup::quickstart().start();
    let (token, viewer) = (Token::of("dam.operator").sign(), Token::of("viewer").sign());
    let asked = |target: &'static str, token: &str, status: u16| {
        let ask = Ask::get(target);
        let ask = if token.is_empty() { ask } else { ask.bearer(token) };
        moved(&world, || assert_eq!(world.ask(ask).status, status, "{target}"))
    };
    exactly(
        &asked(OWN, &token, 200),
        &[
            check("allow", "dam_operator", "collection"),
            caches(&COLD),
            caches(&[("decision", "miss")]),
            stages(&["route", "authn", "context", "policy"]),
            call("ok"),
        ],
    );
    exactly(
        &asked(OWN, &token, 200),
        &[
            check("allow", "dam_operator", "collection"),
            caches(&[("token", "hit"), ("context", "hit"), ("decision", "hit")]),
        ],
    );
    exactly(&asked("/elsewhere", &token, 403), &[check("deny", "no_route", "none")]);
    world.backend.user_status.store(500, Ordering::SeqCst);
    exactly(
        &asked(OWN, &viewer, 503),
        &[
            check("unavailable", "user_api_unavailable", "collection"),
            caches(&COLD),
            stages(&["route", "authn", "context"]),
            call("failed"),
        ],
    );
    assert!(world.metric("portcullis_checks_in_flight", &[]).abs() < 0.1);
    assert!(world.metric("portcullis_checks_shed_total", &[]).abs() < 0.1);
}

#[test]
fn checks_beyond_the_limit_are_shed_and_counted() {
    let to = "limits: { max_in_flight: 1 }\ncheck: { budget: 10s";
    let world = Setup::quickstart()
        .envoy("timeout: 0.5s", "timeout: 10s")
        .portcullis("check: { budget: 400ms", to)
        .portcullis("timeout: 350ms", "timeout: 9s")
        .start();
    world.backend.user_delay.store(2_000, Ordering::SeqCst);
    let slow = Ask::get(OWN).bearer(&Token::of("dam.operator").sign());
    let port = world.ports.envoy;
    let waiting = std::thread::spawn(move || slow.send(port));
    let start = Instant::now();
    while world.backend.user_calls() == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "the first Check never began");
        std::thread::sleep(Duration::from_millis(1));
    }
    let shed = moved(&world, || {
        let answer = world.ask(Ask::get("/cwms-data/offices"));
        assert_eq!((answer.status, answer.reason()), (503, "overloaded".to_owned()), "{answer:?}");
        assert_eq!(waiting.join().unwrap().status, 200, "the one before was not harmed");
    });
    assert_eq!(shed.get("checks_shed_total"), Some(&1), "{shed:?}");
    let series = &check("unavailable", "overloaded", "none")[0];
    assert_eq!(shed.get(series), Some(&1), "{shed:?}");
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200, "room again");
}
