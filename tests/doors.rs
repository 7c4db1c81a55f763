//! The doors: Unix socket, health and readiness, drain.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use crate::harness::{Ask, Setup, Token, grpc};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

fn sidecar() -> Setup {
    let tcp = "check: [\"127.0.0.1:9191\"]";
    let both = "check: [\"unix:SOCKET\", \"127.0.0.1:9191\"]";
    Setup::of("envoy/sidecar.yaml").portcullis(tcp, both)
}

#[test]
fn s8_6_checks_pass_over_a_unix_socket_that_others_cannot_open() {
    let world = sidecar().start();
    let meta = std::fs::metadata(world.folder().join("check.sock")).unwrap();
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o660);
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of("dam.operator").sign()));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    assert_eq!(world.counts(), [1, 1, 0]);
}

#[test]
fn s8_6_admin_serves_health_readiness_and_metrics_only() {
    let world = Setup::quickstart().start();
    let get = |target: &str| Ask::get(target).send(world.ports.admin);
    for target in ["/health", "/ready", "/ready?verbose", "/metrics", "/metrics/json"] {
        assert_eq!(get(target).status, 200, "{target}");
    }
    for target in ["/", "/config", "/debug", "/cwms-data/offices"] {
        assert_eq!(get(target).status, 404, "{target}");
    }
}

#[test]
fn the_check_door_answers_health() {
    let world = Setup::quickstart().start();
    let reply = grpc::call(world.ports.check, "/grpc.health.v1.Health/Check", &[], b"");
    // Field 1, SERVING.
    assert_eq!((reply.status, reply.payload.as_slice()), (None, [8, 1].as_slice()), "{reply:?}");
}

#[test]
fn a_drain_finishes_what_is_in_flight_and_ends_with_0() {
    let mut world = Setup::quickstart().start();
    world.backend.user_delay.store(200, std::sync::atomic::Ordering::SeqCst);
    let ask = Ask::get(OWN).bearer(&Token::of("dam.operator").sign());
    let port = world.ports.envoy;
    let waiting = std::thread::spawn(move || ask.send(port));
    while world.backend.user_calls() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    world.end_portcullis();
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    let answer = waiting.join().unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}
