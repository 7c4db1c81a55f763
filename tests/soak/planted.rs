//! The soak finds what it is there to find.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Reach, Shared, setup, traffic};
use crate::harness::Setup;
use crate::harness::redis::Server;

/// A rule of the test's own in the place of the shipped one.
fn lax(setup: Setup, answer: &str) -> Setup {
    let rule = format!("package lax\n\ndecision := {answer}\n");
    setup.file("p/lax.rego", &rule).portcullis("data.cwms.authz.decision", "data.lax.decision")
}

/// What a few seconds of traffic find.
fn found(setup: Setup, status: u16, fault: Option<Reach>) -> String {
    let shared = Shared::default();
    let world = setup.start();
    world.backend.user_status.store(status, Ordering::SeqCst);
    if let Some(reach) = fault {
        shared.begin("planted".to_owned(), reach);
    }
    traffic(world.ports.envoy, 7, 100, &shared, || {
        std::thread::sleep(Duration::from_secs(3));
    });
    shared.tally.into_inner().unwrap().problems.join("\n")
}

#[test]
fn s10_soak_a_planted_fault_is_found() {
    let redis = Server::start(&[]);
    let soak = || setup(redis.port);
    assert_eq!(found(soak(), 0, None), "", "nothing is planted");

    let all = "{\"allow\": true, \"headers\": {\"x-cwms-auth-context\": \"{}\"}}";
    let problems = found(lax(soak(), all), 0, None);
    assert!(problems.contains("WRONG ALLOW"), "a policy that allows everything: {problems}");

    let open = lax(soak(), "{\"allow\": true}")
        .portcullis("managed: [x-cwms-auth-context]", "managed: [x-other]")
        .portcullis("  require_headers: [x-cwms-auth-context]\n", "");
    let problems = found(open, 0, None);
    assert!(problems.contains("SPOOFED"), "a header that nobody manages: {problems}");

    let problems = found(soak(), 500, Some(Reach::Nobody));
    assert!(problems.contains("unavailable without a fault"), "a failure of its own: {problems}");
    assert_eq!(found(soak(), 500, Some(Reach::Users)), "", "a fault excuses it");
}
