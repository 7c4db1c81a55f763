//! The soak finds what it is there to find.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Reach, Shared, setup, traffic};
use crate::harness::Setup;
use crate::harness::redis::Server;
use crate::kit::backend::Backend;

/// A rule of the test's own in the place of the shipped one.
fn lax(setup: Setup, answer: &str) -> Setup {
    let rule = format!("package lax\n\ndecision := {answer}\n");
    setup.file("p/lax.rego", &rule).portcullis("data.cwms.authz.decision", "data.lax.decision")
}

/// What a few seconds of traffic find while the user API is as `fault` makes it.
fn found(setup: Setup, seconds: u64, fault: impl Fn(&Backend), reach: Reach) -> String {
    let shared = Shared::default();
    let world = setup.start();
    fault(&world.backend);
    shared.begin("planted".to_owned(), reach);
    traffic(world.ports.envoy, 7, 100, &shared, || {
        std::thread::sleep(Duration::from_secs(seconds));
    });
    shared.tally.into_inner().unwrap().problems.join("\n")
}

#[test]
fn s10_soak_a_planted_fault_is_found() {
    let redis = Server::start(&[]);
    let soak = || setup(redis.port);
    let well = |_: &Backend| {};
    let down = |backend: &Backend| backend.user_status.store(500, Ordering::SeqCst);
    let hangs = |backend: &Backend| backend.user_delay.store(10_000, Ordering::SeqCst);
    assert_eq!(found(soak(), 3, well, Reach::Nobody), "", "nothing is planted");

    let all = "{\"allow\": true, \"headers\": {\"x-cwms-auth-context\": \"{}\"}}";
    let problems = found(lax(soak(), all), 3, well, Reach::Nobody);
    assert!(problems.contains("WRONG ALLOW"), "a policy that allows everything: {problems}");

    let late = soak().portcullis("leeway: 0s", "leeway: 1m");
    let problems = found(late, 6, well, Reach::Nobody);
    let short = |line: &str| line.contains("short token") && line.contains("WRONG ALLOW");
    assert!(problems.lines().any(short), "tokens live on: {problems}");

    let open = lax(soak(), "{\"allow\": true}")
        .portcullis("managed: [x-cwms-auth-context]", "managed: [x-other]")
        .portcullis("  require_headers: [x-cwms-auth-context]\n", "");
    let problems = found(open, 3, well, Reach::Nobody);
    assert!(problems.contains("SPOOFED"), "a header that nobody manages: {problems}");

    let problems = found(soak(), 3, down, Reach::Nobody);
    assert!(problems.contains("unavailable without a fault"), "a failure of its own: {problems}");
    assert_eq!(found(soak(), 3, down, Reach::Users), "", "a fault excuses it");

    let slow = soak()
        .envoy("timeout: 1.2s", "timeout: 5s")
        .portcullis("budget: 1100ms", "budget: 4s")
        .portcullis("timeout: 800ms", "timeout: 3s");
    let problems = found(slow, 5, hangs, Reach::Users);
    assert!(problems.contains("stuck for"), "answers that come late: {problems}");
}
