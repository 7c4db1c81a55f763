//! Redis that does not answer, answers wrongly, or is not there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::proxy::{Mode, Proxy};
use super::server::Server;
use super::{LEAST, Sut, config, url};
use crate::telemetry::BreakerState;

/// Within this, a thing happens on the most loaded of machines; none of it is a time-out paid.
const SOON: Duration = Duration::from_secs(5);

fn behind(proxy: &Proxy) -> Sut {
    Sut::new(&config(&json!({"url": url(proxy.port), "timeout": "200ms"})))
}

/// Calls fail, within their time; soon they fail without being made.
async fn fails_and_then_costs_nothing(sut: &Sut) {
    for _ in 0..20 {
        let start = Instant::now();
        assert!(sut.get("key").await.is_err());
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
    assert_ne!(sut.state().breaker, BreakerState::Closed);
    assert!(sut.state().last_error.is_some());
    // A thousand calls; at 200 ms each, they would take 200 s.
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(sut.get("key").await.is_err());
    }
    assert!(start.elapsed() < 4 * SOON, "{:?}", start.elapsed());
}

#[tokio::test]
async fn n01_silence_halves_and_closed_doors_cost_little_and_pass() {
    let server = Server::start(&[]);
    for mode in [Mode::Silent, Mode::Handshake, Mode::Half, Mode::Close] {
        // From the start.
        let proxy = Proxy::start(server.port, mode).await;
        let sut = behind(&proxy);
        fails_and_then_costs_nothing(&sut).await;
        proxy.turn(Mode::Pass);
        sut.recovers("key", SOON).await;
        // In the middle of traffic.
        proxy.turn(mode);
        let calls = async {
            for _ in 0..50 {
                let _ = sut.get("key").await;
            }
        };
        tokio::time::timeout(4 * SOON, calls).await.unwrap();
        fails_and_then_costs_nothing(&sut).await;
        proxy.turn(Mode::Pass);
        sut.recovers("key", SOON).await;
        assert!(proxy.connections() < 200, "{mode:?}: {}", proxy.connections());
    }
}

#[tokio::test]
async fn n01_a_full_backlog_and_a_name_that_does_not_resolve_cost_little() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let knock = || {
        tokio::time::timeout(Duration::from_millis(100), tokio::net::TcpStream::connect(address))
    };
    let _held = futures_util::future::join_all((0..8).map(|_| knock())).await;
    let sut = Sut::new(&config(&json!({"url": url(address.port()), "timeout": "200ms"})));
    fails_and_then_costs_nothing(&sut).await;
    let nowhere = "redis://no-such-host.invalid:6379";
    let sut = Sut::new(&config(&json!({"url": nowhere, "timeout": "200ms"})));
    fails_and_then_costs_nothing(&sut).await;
}

#[tokio::test]
async fn a_redis_that_was_killed_or_emptied_is_found_again() {
    let mut server = Server::start(&[]);
    let sut = Sut::of(&server);
    sut.recovers("key", SOON).await;
    server.kill();
    fails_and_then_costs_nothing(&sut).await;
    server.run();
    let start = Instant::now();
    while sut.get("key").await != Ok(None) {
        assert!(start.elapsed() < SOON, "{:?}", sut.state());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sut.recovers("key", SOON).await;
}

#[tokio::test]
async fn a_redis_that_starts_after_us_is_found() {
    let mut server = Server::start(&[]);
    server.kill();
    let sut = Sut::of(&server);
    fails_and_then_costs_nothing(&sut).await;
    server.run();
    sut.recovers("key", SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_never_given_to_another_command_after_a_pause() {
    let server = Server::start(&[]);
    let nodes = super::kinds::cluster();
    let node = format!("127.0.0.1:{}", nodes[0].port);
    let patient = json!({"failures": 1_000_000, "open_for": "1ms"});
    for (paused, members) in [
        (&server, json!({"url": url(server.port), "timeout": "50ms", "breaker": patient})),
        (&nodes[0], json!({"cluster": [node], "timeout": "50ms", "breaker": patient})),
    ] {
        let sut = Arc::new(Sut::new(&config(&members)));
        for n in 0..50 {
            sut.recovers(&format!("k{n}"), SOON).await;
        }
        let mut failed = 0;
        for round in 0..6 {
            let calls: Vec<_> = (0..200)
                .map(|n| {
                    let (sut, key) = (Arc::clone(&sut), format!("k{}", n % 50));
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(n)).await;
                        let got = sut.get(&key).await;
                        assert!(got.is_err() || got == Ok(Some(key.clone())), "{key}: {got:?}");
                        got.is_err()
                    })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(20 + 10 * round)).await;
            paused.signal("STOP");
            tokio::time::sleep(Duration::from_millis(100)).await;
            paused.signal("CONT");
            for call in calls {
                failed += u32::from(call.await.unwrap());
            }
        }
        assert!(failed > 0, "the pauses were felt");
        sut.recovers("k0", SOON).await;
    }
}

#[tokio::test]
async fn a_paused_redis_costs_its_time_out_a_few_times() {
    let server = Server::start(&[]);
    let sut = Sut::new(&config(&json!({"url": url(server.port), "timeout": "200ms"})));
    sut.recovers("key", SOON).await;
    server.signal("STOP");
    fails_and_then_costs_nothing(&sut).await;
    assert!(sut.counts("dependency_calls_total{dependency=\"redis\",outcome=\"timeout\"}"));
    server.signal("CONT");
    sut.recovers("key", SOON).await;
}

#[tokio::test]
async fn a_full_redis_still_reads() {
    let server = Server::start(&[]);
    let sut = Sut::of(&server);
    sut.recovers("key", SOON).await;
    assert!(server.say("CONFIG SET maxmemory 1").starts_with("+OK"));
    for _ in 0..20 {
        let error = sut.set("other", "value").await.unwrap_err();
        assert!(error.0.contains("memory"), "{error}");
    }
    assert_eq!(sut.get("key").await, Ok(Some("key".to_owned())));
    assert_eq!(sut.state().breaker, BreakerState::Closed);
    assert!(server.say("CONFIG SET maxmemory 0").starts_with("+OK"));
    sut.recovers("other", SOON).await;
}

#[tokio::test]
async fn a_wrong_password_shows_as_such_and_a_right_one_serves() {
    let server = Server::start(&["--requirepass", "marker-right"]);
    let with =
        |password: &str| Sut::new(&config(&json!({"url": url(server.port), "password": password})));
    let wrong = with("marker-wrong");
    fails_and_then_costs_nothing(&wrong).await;
    let (error, _) = wrong.state().last_error.unwrap();
    assert!(error.contains("password") && !error.contains("marker"), "{error}");
    with("marker-right").recovers("key", SOON).await;
    let none = Sut::new(&config(&json!({"url": url(server.port)})));
    assert!(none.get("key").await.unwrap_err().0.contains("password"));
}

#[tokio::test]
async fn an_acl_user_needs_few_commands() {
    let server = Server::start(&[]);
    let rule = format!("ACL SETUSER pdp on >marker {LEAST}");
    assert!(server.say(&rule).starts_with("+OK"));
    let as_user = |prefix: &str| {
        let who = json!({
            "url": url(server.port), "username": "pdp", "password": "marker", "prefix": prefix,
        });
        Sut::new(&config(&who))
    };
    as_user("portcullis:").recovers("key", SOON).await;
    let error = as_user("other:").get("key").await.unwrap_err();
    assert!(error.0.contains("ACL"), "{error}");
}
