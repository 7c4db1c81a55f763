//! One event per Check in the files by date, whatever became of the Check.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Ask, Setup, Token, grpc};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

#[test]
fn s8_4_every_check_has_one_event_on_disk_after_the_drain() {
    let to = "audit: { directory: audit }\nheaders:\n";
    // Time enough that only the client ends a Check.
    let mut world = Setup::quickstart()
        .envoy("timeout: 0.5s", "timeout: 10s")
        .portcullis("check: { budget: 400ms", "check: { budget: 10s")
        .portcullis("timeout: 350ms", "timeout: 9s")
        .portcullis("headers:\n", to)
        .start();
    let (token, viewer) = (Token::of("dam.operator").sign(), Token::of("viewer").sign());
    let ask = |target: &str, token: &str| world.ask(Ask::get(target).bearer(token)).status;

    assert_eq!(ask(OWN, &token), 200);
    assert_eq!(ask("/cwms-data/timeseries?office=SWT&access=MARKER", &token), 403);
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    world.backend.user_status.store(500, Ordering::SeqCst);
    assert_eq!(ask(OWN, &viewer), 503);
    world.backend.user_status.store(0, Ordering::SeqCst);
    // Not a CheckRequest at all.
    let check = "/envoy.service.auth.v3.Authorization/Check";
    let reply = grpc::call(world.ports.check, check, &[], b"\xff\xff\xff");
    assert_eq!((reply.http, reply.status), (200, None), "{reply:?}");
    cancelled(&world, &Token::of("water.manager").sign());

    world.end_portcullis();
    let events = world.audited();
    let told = |event: &Value| {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        (text("outcome"), event["status"].as_u64().unwrap(), text("reason"))
    };
    let told: Vec<_> = events.iter().map(told).collect();
    let told: Vec<_> = told.iter().map(|(o, s, r)| (o.as_str(), *s, r.as_str())).collect();
    let expected = [
        ("allow", 200, "dam_operator"),
        ("deny", 403, "office_not_yours"),
        ("deny", 401, "sign_in_required"),
        ("unavailable", 503, "user_api_unavailable"),
        ("deny", 400, "undecodable"),
        ("unavailable", 503, "cancelled"),
    ];
    assert_eq!(told, expected, "{events:#?}");
    let ids: BTreeSet<_> = events.iter().map(|event| event["check_id"].to_string()).collect();
    assert_eq!(ids.len(), events.len(), "{ids:?}");

    let allow = &events[0];
    assert_eq!(allow["constraints"]["allowed_offices"][0], "SPK", "{allow}");
    for name in ["decision_id", "policy_revision", "subject_hash", "route", "time"] {
        assert!(allow[name].is_string(), "{name}: {allow}");
    }
    let text = format!("{events:?}");
    for secret in [token.as_str(), "MARKER", "sub-dam.operator"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

/// A client that goes away while the user API hangs.
fn cancelled(world: &crate::harness::World, token: &str) {
    world.backend.user_delay.store(10_000, Ordering::SeqCst);
    let calls = world.backend.user_calls();
    let mut stream = TcpStream::connect(("127.0.0.1", world.ports.envoy)).unwrap();
    stream.write_all(&Ask::get(OWN).bearer(token).into_head()).unwrap();
    let start = Instant::now();
    while world.backend.user_calls() == calls {
        assert!(start.elapsed() < Duration::from_secs(10), "the Check never began");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    while world.metric("portcullis_checks_in_flight", &[]) > 0.1 {
        assert!(start.elapsed() < Duration::from_secs(10), "the Check never ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}
