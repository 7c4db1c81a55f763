//! User contexts in a real Redis, shared by replicas, and what its failures cost a request.

use std::time::{Duration, Instant};

use crate::harness::redis::Server;
use crate::harness::{Ask, Setup, Token, World, records};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

fn world(port: u16) -> World {
    let store = format!(
        "store:\n  redis:\n    url: redis://127.0.0.1:{port}\n    key: {}\n    timeout: 150ms\n\
         \nuser_context:\n",
        "marker-".repeat(5)
    );
    Setup::quickstart().portcullis("\nuser_context:\n", &format!("\n{store}")).start()
}

fn allowed(world: &World, user: &str) {
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of(user).sign()));
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = answer.seen("x-cwms-auth-context");
    assert!(seen[0].contains(&user.to_ascii_uppercase()), "{seen:?}");
}

fn redis_calls(world: &World) -> f64 {
    world.metric("portcullis_dependency_calls_total", &["dependency=\"redis\""])
}

fn verbose(world: &World) -> String {
    Ask::get("/ready?verbose").send(world.ports.admin).text()
}

/// What is written beside an answer is there soon.
fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_warm_check_asks_nobody_and_a_replica_that_starts_finds_what_others_loaded() {
    let server = Server::start(&[]);
    let mut world = world(server.port);
    allowed(&world, "dam.operator");
    until("it is stored", || records(&server).len() == 1);
    let calls = redis_calls(&world);
    assert!(calls >= 2.0, "{calls}");
    for _ in 0..20 {
        allowed(&world, "dam.operator");
    }
    // Beside them the generations are read every few seconds.
    assert!(redis_calls(&world) - calls < 5.0, "warm Checks ask memory");
    let text = verbose(&world);
    assert!(text.contains("dependency:redis") && text.contains("dependency:user_api"), "{text}");

    world.end_portcullis();
    world.start_portcullis();
    allowed(&world, "dam.operator");
    assert_eq!(world.backend.user_calls(), 1, "found in Redis");
    assert!(!world.metrics().contains("marker"));
}

#[test]
fn n04_a_poisoned_record_is_loaded_anew_and_written_again() {
    let server = Server::start(&[]);
    let mut world = world(server.port);
    allowed(&world, "dam.operator");
    until("it is stored", || records(&server).len() == 1);
    let key = records(&server).remove(0);
    let good = server.say(&format!("STRLEN {key}"));
    for (n, value) in [(1, "null"), (2, "{}"), (3, "'{\"v\":999}'")] {
        world.end_portcullis();
        assert!(server.say(&format!("SET {key} {value}")).starts_with("+OK"));
        world.start_portcullis();
        allowed(&world, "dam.operator");
        assert_eq!(world.backend.user_calls(), 1 + n, "{value}: asked for anew");
        until("it is written again", || server.say(&format!("STRLEN {key}")) == good);
        let rejected = world.metric("portcullis_store_values_rejected_total", &[]);
        assert!((rejected - 1.0).abs() < f64::EPSILON, "{rejected}");
    }
}

#[test]
fn n01_s8_1_a_redis_that_is_gone_or_hangs_costs_no_answer() {
    let mut server = Server::start(&[]);
    server.kill();
    // It is not there when the service starts.
    let world = world(server.port);
    allowed(&world, "dam.operator");
    server.run();
    server.until("PING", "PONG");
    // Found within seconds, by requests of users that memory does not know.
    let users = ["water.manager", "viewer", "admin", "stranger"];
    let known: Vec<_> = users
        .iter()
        .filter(|user| {
            let answer = world.ask(Ask::get(OWN).bearer(&Token::of(user).sign()));
            std::thread::sleep(Duration::from_millis(1100));
            assert_ne!(answer.status, 503, "{answer:?}");
            !records(&server).is_empty()
        })
        .collect();
    assert!(!known.is_empty(), "{}", verbose(&world));
    // It hangs: whoever is in memory does not notice, others wait its small time-out.
    server.signal("STOP");
    for user in ["dam.operator", "one", "two", "three"] {
        let answer = world.ask(Ask::get(OWN).bearer(&Token::of(user).sign()));
        assert_ne!(answer.status, 503, "{user}: {answer:?}");
    }
    server.signal("CONT");
}
