//! Deny, challenge and unavailable as Envoy and its client see them; the counters agree.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::{Answer, Ask, Setup, Token};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

pub(crate) fn unavailable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").parse::<u64>().is_ok(), "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
}

#[test]
fn s3_4_an_error_has_one_body_and_the_request_id() {
    // An edge makes the id itself unless it is told to keep the client's.
    let edge = "use_remote_address: true\n";
    let keeps = "use_remote_address: true\n          preserve_external_request_id: true\n";
    let world = Setup::quickstart().envoy(edge, keeps).start();
    let ask = Ask::get("/cwms-data/timeseries?office=SWT").header("x-request-id", "story-1");
    let answer = world.ask(ask.bearer(&Token::of("dam.operator").sign()));
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    let body = answer.json();
    assert!(body["error"].is_string() && body["reason"].is_string(), "{body}");
    assert_eq!(body["request_id"], "story-1", "{body}");
}

#[test]
fn s2_invariant_4_what_no_route_matches_is_denied() {
    let world = Setup::bare().start();
    let answer = world.ask(Ask::get("/elsewhere"));
    assert_eq!((answer.status, answer.reason()), (403, "no_route".to_owned()), "{answer:?}");
}

#[test]
fn s1_1_targets_that_two_readers_read_differently_are_refused() {
    let world = Setup::bare().start();
    for target in [
        "/cwms-data//offices",
        "/cwms-data/./offices",
        "/cwms-data/x/../offices",
        "/cwms-data/x/%2e%2e/offices",
        "/cwms-data%2foffices",
        "/cwms-data/offices;a=b",
        "/cwms-data\\offices",
        "/cwms-data/off%5cices",
        "/cwms-data/%256fffices",
    ] {
        let answer = world.ask(Ask::get(target));
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
        assert_eq!(answer.reason(), "path_not_canonical", "{target}: {answer:?}");
    }
    assert_eq!(world.backend.requests(), 0);
}

#[test]
fn envoys_counters_agree_with_the_answers() {
    let world = Setup::quickstart().start();
    let token = Token::of("dam.operator").sign();
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
    assert_eq!(world.ask(Ask::get(OWN).bearer(&token)).status, 200);
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    assert_eq!(world.ask(Ask::get("/cwms-data/timeseries?office=SWT").bearer(&token)).status, 403);
    assert_eq!(world.counts(), [2, 2, 0]);
    let checks = |outcome: &str| {
        world.metric("portcullis_checks_total", &[&format!("outcome=\"{outcome}\"")])
    };
    assert!((checks("allow") - 2.0).abs() < 0.1, "{}", world.metrics());
    assert!((checks("deny") - 2.0).abs() < 0.1, "{}", world.metrics());
}

#[test]
fn the_access_log_says_why_without_a_header() {
    let world = Setup::quickstart().start();
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    let start = Instant::now();
    while world.envoy.output().matches("\"summary\":\"check_id=").count() < 2 {
        assert!(start.elapsed() < Duration::from_secs(5), "{}", world.envoy.output());
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = world.envoy.output();
    let refused = "\"reason\":\"sign_in_required\"";
    assert!(log.contains(" route=collection ") && log.contains(refused), "{log}");
    assert_eq!(log.matches(" reason=").count(), 2, "{log}");
}

#[test]
fn s8_2_a_failing_user_api_is_unavailable_and_never_a_denial() {
    let world = Setup::quickstart().start();
    let token = Token::of("dam.operator").sign();
    for status in [500, 503, 429, 302] {
        world.backend.user_status.store(status, Ordering::SeqCst);
        unavailable(&world.ask(Ask::get(OWN).bearer(&token)));
    }
    assert_eq!(world.counts(), [0, 0, 4], "Envoy counts them as errors");
    assert_eq!(world.backend.requests(), 0);
    world.backend.user_status.store(0, Ordering::SeqCst);
    let start = Instant::now();
    // A breaker may keep it closed for a moment, never for good.
    while world.ask(Ask::get(OWN).bearer(&token)).status != 200 {
        assert!(start.elapsed() < Duration::from_secs(20), "a failure was kept");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn s5_5_a_user_whom_the_api_does_not_know_is_denied() {
    let world = Setup::quickstart().start();
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of("stranger").sign()));
    assert_eq!((answer.status, answer.reason()), (403, "unknown_user".to_owned()), "{answer:?}");
    world.backend.user_status.store(401, Ordering::SeqCst);
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of("viewer").sign()));
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(world.counts(), [0, 2, 0]);
}

#[test]
fn s3_6_a_slow_user_api_is_unavailable_within_the_budget() {
    let world = Setup::quickstart().hurried().start();
    world.backend.user_delay.store(5_000, Ordering::SeqCst);
    let start = Instant::now();
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of("dam.operator").sign()));
    unavailable(&answer);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(world.counts(), [0, 0, 1]);
}

#[test]
fn s8_2_portcullis_ended_is_503_and_forwards_nothing() {
    let mut world = Setup::quickstart().hurried().start();
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
    world.end_portcullis();
    let answer = world.ask(Ask::get("/cwms-data/offices"));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(world.counted("error"), 1);
    assert_eq!(world.backend.requests(), 1);
}

#[test]
fn envoys_timeout_counts_where_it_is_the_smaller() {
    let world = Setup::quickstart()
        .envoy("timeout: 0.5s", "timeout: 0.2s")
        .portcullis("check: { budget: 400ms, reserve: 10ms", "check: { budget: 10s, reserve: 100ms")
        .portcullis("timeout: 350ms", "timeout: 9s")
        .start();
    world.backend.user_delay.store(5_000, Ordering::SeqCst);
    let start = Instant::now();
    // Portcullis keeps a reserve, so that the answer is its own and not Envoy's.
    unavailable(&world.ask(Ask::get(OWN).bearer(&Token::of("dam.operator").sign())));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(world.counts(), [0, 0, 1]);
}

#[test]
fn s8_4_clients_that_go_away_harm_nobody_and_are_audited() {
    const GONE: u64 = 40;
    let world = Setup::quickstart().start();
    world.backend.user_delay.store(150, Ordering::SeqCst);
    let ask = Ask::get(OWN).bearer(&Token::of("dam.operator").sign());
    for _ in 0..GONE {
        let mut stream = TcpStream::connect(("127.0.0.1", world.ports.envoy)).unwrap();
        stream.write_all(&ask.clone().into_head()).unwrap();
        // Dropped with its Check under way.
        std::thread::sleep(Duration::from_millis(2));
    }
    let answer = world.ask(ask);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(world.backend.user_calls(), 1, "one load serves all who wait, and outlives them");
    let start = Instant::now();
    let audited = || world.metric("portcullis_audit_events_written_total", &[]);
    let checks = || world.metric("portcullis_checks_total", &[]);
    while (audited() - checks()).abs() > 0.1 || checks() < 2.0 {
        assert!(start.elapsed() < Duration::from_secs(10), "{} of {}", audited(), checks());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(world.metric("portcullis_checks_in_flight", &[]).abs() < 0.1, "{}", world.metrics());
}
