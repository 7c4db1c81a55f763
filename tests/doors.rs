//! The doors: Unix socket, health and readiness, drain.

use std::io::Write as _;
use std::net::TcpStream;
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

#[test]
fn o01_an_interrupt_ends_it_with_0_whatever_its_peers_do() {
    let check = "drain: { grace: 2s }\naudit: { directory: audit }\ncheck: { budget: 60s";
    let mut world = Setup::quickstart()
        .envoy("timeout: 0.5s", "timeout: 60s")
        .portcullis("check: { budget: 400ms", check)
        .portcullis("timeout: 350ms", "timeout: 59s")
        .start();
    // Peers that say nothing, begin and stop, or never read; the Envoy beside them is idle.
    let says = |port: u16, bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let settings = [preface, b"\0\0\0\x04\0\0\0\0\0"].concat();
    let (door, admin) = (world.ports.check, world.ports.admin);
    let _peers = [
        says(door, b""),
        says(door, preface),
        says(door, &settings),
        says(door, b"GET / HTTP/1.1\r\n"),
        says(admin, b""),
        says(admin, b"GET /metrics HTTP/1.1\r\nhost: a\r\nx-a"),
    ];
    // A Check that would take longer than there is time.
    world.backend.user_delay.store(60_000, std::sync::atomic::Ordering::SeqCst);
    let ask = Ask::get(OWN).bearer(&Token::of("dam.operator").sign());
    let hanging = says(world.ports.envoy, &ask.into_head());
    while world.backend.user_calls() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut process = world.portcullis.take().unwrap();
    let start = Instant::now();
    process.signal("INT");
    let status = process.ended(Duration::from_secs(12));
    assert_eq!(status.code(), Some(0), "{status} after {:?}", start.elapsed());
    drop(hanging);
    let events = world.audited();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["outcome"], "unavailable", "{events:?}");
}
