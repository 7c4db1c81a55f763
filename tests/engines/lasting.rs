//! What outlives a reload, what an open route gives away, and HTTP/2.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use portcullis::model::{CacheState, Code};
use portcullis::policy::Question;
use serde_json::json;

use super::{Bench, POLICY, bundle, start, url};
use crate::harness::{Folder, Opa, port};

fn kill(opa: &mut Opa) {
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(5));
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(8), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn s9_1_breaker_connections_and_revision_outlive_a_reload() {
    let folder = bundle(POLICY, "one");
    let mut opa = start(&folder, port());
    let (url, settings) = (url(&opa), json!({}));
    let bench = Bench::opa(&url, &settings);
    bench.ask("yes").unwrap();
    let after = bench.reloaded(&url, &settings);
    assert_eq!(
        after.ask("yes").unwrap().1,
        CacheState::Hit,
        "the revision is known from the start"
    );
    kill(&mut opa);
    while bench.ask("never").unwrap_err().detail != "OPA is not called: it failed too often lately"
    {
    }
    let told = |bench: &Bench| bench.ask("never").unwrap_err().detail;
    let after = bench.reloaded(&url, &settings);
    assert_eq!(
        told(&after),
        "OPA is not called: it failed too often lately",
        "its breaker is open"
    );
    let other = bench.reloaded(&url, &json!({"timeout": "1900ms"}));
    assert_eq!(told(&other), "OPA cannot be reached", "another client");
}

#[test]
fn s8_1_an_open_route_passes_while_opa_fails_and_at_no_other_time() {
    let folder = bundle(POLICY, "one");
    let mut opa = start(&folder, port());
    let bench = Bench::opa(&url(&opa), &json!({"timeout": "400ms"}));
    let open = |case: &str| bench.put(Question { open: true, ..bench.question(case) });
    for (case, allow) in [("never", true), ("no", false), ("null", false), ("elsewhere", false)] {
        assert_eq!(open(case).unwrap().0.allow, allow, "{case}: OPA decides");
    }
    // A caller whose question takes long sees the same.
    opa.process.signal("STOP");
    assert_eq!(open("never").unwrap_err().code, Code::PolicyUnavailable, "silence");
    opa.process.signal("CONT");
    kill(&mut opa);
    let (decision, state) = open("never").unwrap();
    assert_eq!((decision.allow, state), (true, CacheState::Open));
    assert!(decision.expires.is_none() && decision.headers.is_empty());
    assert_eq!(decision.reason, Code::PolicyOpen.into());
    // What was decided stays so.
    assert!(!open("no").unwrap().0.allow, "a denial that is kept");
    assert_eq!(bench.ask("never").unwrap_err().code, Code::PolicyUnavailable, "another route");
    let _opa = start(&folder, opa.port);
    until("OPA decides again", || open("never").unwrap().1 == CacheState::Miss);
}

#[test]
fn s3_6_load_and_size_that_callers_bring_about_open_nothing() {
    let folder = bundle(POLICY, "one");
    let opa = start(&folder, port());
    let small = Bench::opa(&url(&opa), &json!({"max_response": "50B"}));
    let open = |bench: &Bench, case: &str| Question { open: true, ..bench.question(case) };
    assert!(small.put(open(&small, "yes")).is_err(), "an answer that is too large");
    let full = Bench::opa(&url(&opa), &json!({"max_in_flight": 1, "max_waiting": 0}));
    opa.process.signal("STOP");
    // One has the place until its time-out; the others come meanwhile.
    let answers: Vec<_> = std::thread::scope(|scope| {
        let full = &full;
        let threads = ["yes", "no", "true", "false"].map(|case| {
            scope.spawn(move || full.put(Question { open: true, ..full.question(case) }))
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    opa.process.signal("CONT");
    let told: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(told.len(), 4, "{answers:?}");
    let shed = told.iter().filter(|told| told.detail == "too many calls to OPA are waiting");
    assert_eq!(shed.count(), 3, "{answers:?}");
}

#[test]
fn http2_is_spoken_from_the_first_byte_where_it_is_said() {
    let folder = bundle(POLICY, "one");
    let speaks = |more: &[&str]| {
        let port = port();
        let mut command = Opa::command(&format!("127.0.0.1:{port}"));
        command.args(more).arg("--bundle").arg(folder.path().join("bundle"));
        Opa::run(port, folder.path(), &mut command)
    };
    let (both, old) = (speaks(&["--h2c"]), speaks(&[]));
    let http2 = json!({"http2": true});
    assert!(Bench::opa(&url(&both), &http2).ask("yes").unwrap().0.allow);
    assert!(Bench::opa(&url(&both), &json!({})).ask("yes").unwrap().0.allow);
    // An OPA that does not know it shows that it was spoken.
    assert!(Bench::opa(&url(&old), &http2).ask("yes").is_err());
}

/// Passes bytes on to `to`; connections made before `cut` was raised last pass nothing any more,
/// and stay open.
fn freezing(to: u16, cut: &Arc<AtomicU32>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, cut) = (listener.local_addr().unwrap().port(), Arc::clone(cut));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), Ok(other)) = (stream, TcpStream::connect(("127.0.0.1", to))) else {
                continue;
            };
            let born = cut.load(Ordering::SeqCst);
            let pairs =
                [(stream.try_clone().unwrap(), other.try_clone().unwrap()), (other, stream)];
            for (mut from, mut to) in pairs {
                let cut = Arc::clone(&cut);
                std::thread::spawn(move || {
                    let mut buffer = [0; 16 << 10];
                    while let Ok(n @ 1..) = from.read(&mut buffer) {
                        if cut.load(Ordering::SeqCst) == born && to.write_all(&buffer[..n]).is_err()
                        {
                            break;
                        }
                    }
                });
            }
        }
    });
    port
}

#[test]
fn a_connection_that_went_dead_unseen_is_given_up() {
    let folder: Folder = bundle(POLICY, "one");
    let (at, cut) = (port(), Arc::new(AtomicU32::new(0)));
    let mut command = Opa::command(&format!("127.0.0.1:{at}"));
    command.arg("--h2c").arg("--bundle").arg(folder.path().join("bundle"));
    let _opa = Opa::run(at, folder.path(), &mut command);
    let proxy = freezing(at, &cut);
    let url = format!("http://127.0.0.1:{proxy}");
    let bench = Bench::opa(&url, &json!({"http2": true, "timeout": "500ms"}));
    bench.ask("never").unwrap();
    cut.fetch_add(1, Ordering::SeqCst);
    assert!(bench.ask("never").is_err(), "the one connection is dead");
    until("another connection", || bench.ask("never").is_ok());
}
