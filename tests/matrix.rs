//! The same answers on every Envoy from 1.36 to 1.40. Only *unavailable* differs: 1.36 has no
//! word for it, so Portcullis ends the Check with a gRPC error there.

use std::process::Command;
use std::sync::atomic::Ordering;

use crate::harness::certs::Authority;
use crate::harness::files::shipped;
use crate::harness::{Answer, Ask, Folder, Setup, Token, World, envoy_of};
use crate::{answers, spoofing};

/// The same as in `deploy/lib.sh`, which fetches them; one test below for each.
const VERSIONS: [&str; 5] = ["1.36.4", "1.37.0", "1.38.3", "1.39.3", "1.40.0"];
const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const OTHER: &str = "/cwms-data/timeseries?office=SWT";
const BARE: &str = "tests/data/envoy-bare.yaml";
const QUICKSTART: &str = "envoy/quickstart.yaml";

#[test]
fn s7_1_envoy_1_36_4() {
    holds("1.36.4");
    unavailable_on_1_36("1.36.4");
}

#[test]
fn s7_1_envoy_1_37_0() {
    holds("1.37.0");
    unavailable("1.37.0");
}

#[test]
fn s7_1_envoy_1_38_3() {
    holds("1.38.3");
    unavailable("1.38.3");
}

#[test]
fn s7_1_envoy_1_39_3() {
    holds("1.39.3");
    unavailable("1.39.3");
}

#[test]
fn s7_1_envoy_1_40_0() {
    holds("1.40.0");
    unavailable("1.40.0");
}

#[test]
fn the_scripts_fetch_these_versions() {
    let list = format!("ENVOY_VERSIONS=\"{}\"\n", VERSIONS.join(" "));
    assert!(shipped("deploy/lib.sh").contains(&list), "{list} is not in deploy/lib.sh");
}

#[test]
fn every_file_is_valid_on_every_version() {
    let folder = Folder::new();
    Authority::new().write(folder.path());
    let tls = folder.path().display().to_string();
    let files = ["mtls", "quickstart", "sidecar", "water-data"].map(|n| format!("envoy/{n}.yaml"));
    for version in VERSIONS {
        for file in files.iter().map(String::as_str).chain([BARE]) {
            let text = shipped(file).replace("/etc/envoy/tls", &tls);
            let copy = folder.write("envoy.yaml", &text);
            let mut command = Command::new(envoy_of(version));
            command.args(["--mode", "validate", "-c"]).arg(copy);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
            let good = output.status.success() && !said.contains("deprecated");
            assert!(good, "{file} on {version}: {said}");
        }
    }
}

/// What is the same on all: whose header arrives, and what a denial is.
fn holds(version: &str) {
    for (file, underscores) in [(QUICKSTART, false), (BARE, true)] {
        let world =
            Setup::of(file).on(version).envoy("timeout: 0.5s", "timeout: 10s").unhurried().start();
        is_version(&world, version);
        spoofing::everywhere(&world, underscores);
        let before = world.counts();
        let token = Token::of("dam.operator").sign();
        let denied = world.ask(Ask::get(OTHER).bearer(&token));
        refused(&denied, 403, version);
        let challenged = world.ask(Ask::get(OWN));
        refused(&challenged, 401, version);
        let scheme = challenged.header("www-authenticate");
        assert!(scheme.starts_with("Bearer realm=\"water-data\""), "{version}: {challenged:?}");
        let invalid = world.ask(Ask::get(OWN).bearer("no.good.token"));
        refused(&invalid, 401, version);
        let [allowed, denied, failed] = world.counts();
        assert_eq!([allowed, denied, failed], [before[0], before[1] + 3, before[2]], "{version}");
        assert_eq!(failed, 0, "{version}");
    }
}

/// The test is of that Envoy and no other.
fn is_version(world: &World, version: &str) {
    let info = Ask::get("/server_info").send(world.ports.envoy_admin).json();
    let told = info["version"].as_str().unwrap_or_default();
    assert!(told.contains(&format!("/{version}/")), "{told} is not {version}");
}

fn refused(answer: &Answer, status: u16, version: &str) {
    assert_eq!(answer.status, status, "{version}: {answer:?}");
    assert_eq!(answer.header("content-type"), "application/json", "{version}");
    assert_eq!(answer.header("cache-control"), "no-store", "{version}");
    assert!(!answer.reason().is_empty(), "{version}: {answer:?}");
}

/// A Check whose user API fails, with what Envoy counted.
fn failing(setup: Setup) -> (Answer, [u64; 3]) {
    let world = setup.envoy("timeout: 0.5s", "timeout: 10s").unhurried().start();
    world.backend.user_status.store(500, Ordering::SeqCst);
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of("dam.operator").sign()));
    assert_eq!(world.backend.requests(), 0, "{answer:?}");
    (answer, world.counts())
}

/// With Portcullis told that an Envoy 1.36 may ask.
fn told(setup: Setup) -> Setup {
    setup.portcullis("check: { budget", "envoy: { min_version: \"1.36\" }\ncheck: { budget")
}

fn unavailable(version: &str) {
    for file in [QUICKSTART, BARE] {
        let (answer, counts) = failing(Setup::of(file).on(version));
        answers::unavailable(&answer);
        assert_eq!(counts, [0, 0, 1], "{version}: {answer:?}");
        // Envoys of several versions behind one Portcullis: `status_on_error` decides.
        let (answer, counts) = failing(told(Setup::of(file).on(version)));
        assert_eq!((answer.status, counts), (503, [0, 0, 1]), "{version}: {answer:?}");
        assert_eq!(answer.header("retry-after"), "", "{version}: {answer:?}");
        let gone = Setup::of(file).on(version).without_portcullis().start();
        let answer = gone.ask(Ask::get("/cwms-data/offices"));
        assert_eq!((answer.status, gone.counts()), (503, [0, 0, 1]), "{version}: {answer:?}");
        assert_eq!(gone.backend.requests(), 0, "{version}");
    }
}

/// `status_on_error` decides what clients see, without a header or a body.
fn unavailable_on_1_36(version: &str) {
    for file in [QUICKSTART, BARE] {
        let (answer, counts) = failing(told(Setup::of(file).on(version)));
        assert_eq!((answer.status, counts), (503, [0, 0, 1]), "{version}: {answer:?}");
        assert!(answer.body.is_empty(), "{version}: {answer:?}");
        // Why it must be told: an error that it does not know is a denial to it.
        let (answer, counts) = failing(Setup::of(file).on(version));
        assert_eq!((answer.status, counts), (403, [0, 1, 0]), "{version}: {answer:?}");
        let gone = Setup::of(file).on(version).without_portcullis().start();
        let answer = gone.ask(Ask::get("/cwms-data/offices"));
        assert_eq!((answer.status, gone.counts()), (503, [0, 0, 1]), "{version}: {answer:?}");
        assert_eq!(gone.backend.requests(), 0, "{version}");
    }
}
