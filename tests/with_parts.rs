//! Known faults end to end: the real binary with a real Redis behind it and a real OPA server
//! that decides.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::harness::redis::{self, Server};
use crate::harness::{Answer, Ask, Folder, Opa, Setup, Token, World, port, records, root};
use crate::kit::token;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
/// Asked with a token of one issuer for one audience; each asks for another.
const ROUTES: &str = "
- { name: x, match: { path: \"/x/{resource}\" }, access: authenticated, audiences: [water-data], policy: cwms, resource: \"{resource}\", action: read }
- { name: y, match: { path: \"/y/{resource}\" }, access: authenticated, audiences: [another], policy: cwms, resource: \"{resource}\", action: read }
- { name: z, match: { path: \"/z/{resource}\" }, access: authenticated, issuers: [second], policy: cwms, resource: \"{resource}\", action: read }
";
const SECOND: &str = "
- name: second
  issuer: https://second.playground.test
  audiences: [water-data]
  keys: { file: FOLDER/jwks.json }
";

/// Everything, with time for a slow machine.
struct House {
    world: World,
    redis: Server,
    opa: Opa,
    _folder: Folder,
}

fn setup(redis: u16, opa: u16) -> Setup {
    let store = format!(
        "\nstore:\n  redis:\n    url: redis://127.0.0.1:{redis}\n    key: {}\n    timeout: 500ms\n\
         audit: {{ directory: FOLDER/audit }}\nuser_context:\n",
        "marker-".repeat(5)
    );
    let engine = format!(
        "  engine: opa\n  opa: {{ url: \"http://127.0.0.1:{opa}\", timeout: 6s }}\n  paths: ["
    );
    Setup::bare()
        .envoy("timeout: 0.5s", "timeout: 12s")
        .portcullis("check: { budget: 400ms", "check: { budget: 10s")
        .portcullis("timeout: 350ms", "timeout: 8s")
        .portcullis("\nuser_context:\n", &store)
        .portcullis("  paths: [", &engine)
        .portcullis("\nroutes:\n", &format!("\nroutes:{ROUTES}"))
        .portcullis("\nissuers:\n", &format!("\nissuers:{SECOND}"))
}

impl House {
    fn start() -> Self {
        Self::with(|setup| setup)
    }

    fn with(change: impl FnOnce(Setup) -> Setup) -> Self {
        let (redis, folder) = (Server::start(&[]), Folder::new());
        let opa = Opa::start(port(), folder.path(), &[&root().join("policies/cwms")]);
        let world = change(setup(redis.port, opa.port)).start();
        Self { world, redis, opa, _folder: folder }
    }

    /// All of these at the same moment.
    fn at_once(&self, asks: Vec<Ask>) -> Vec<Answer> {
        let (start, port) = (Arc::new(Barrier::new(asks.len())), self.world.ports.envoy);
        let one = |ask: Ask| {
            let start = Arc::clone(&start);
            std::thread::spawn(move || {
                start.wait();
                ask.send(port)
            })
        };
        let threads: Vec<_> = asks.into_iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    fn is_sound(&self) {
        let panics = self.world.metric("portcullis_panics_total", &[]);
        assert!(panics.abs() < 0.1, "{panics} panics");
        let log = self.world.portcullis.as_ref().unwrap().output();
        assert!(!log.contains("panicked"), "{log}");
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

fn of(user: &str) -> Ask {
    Ask::get(OWN).bearer(&Token::of(user).sign())
}

#[test]
fn c01_a_token_that_passed_one_route_passes_no_other_and_the_reverse() {
    let house = House::start();
    let ask = |path: &str, token: &str| Ask::get(path).bearer(token);
    for (round, first) in ["/x/offices", "/y/offices", "/z/offices"].into_iter().enumerate() {
        let token = Token::of("dam.operator").claim("round", round).sign();
        let told = |answer: &Answer| match answer.status {
            200 => String::new(),
            _ => answer.reason(),
        };
        let expected = |path: &str| match path {
            "/x/offices" => "",
            "/y/offices" => "token_audience",
            _ => "token_issuer",
        };
        // One route alone is asked first, then all of them at once, twenty times.
        assert_eq!(told(&house.world.ask(ask(first, &token))), expected(first));
        let paths = ["/x/offices", "/y/offices", "/z/offices"].repeat(20);
        let answers = house.at_once(paths.iter().map(|path| ask(path, &token)).collect());
        for (path, answer) in paths.iter().zip(&answers) {
            assert_eq!(told(answer), expected(path), "{path} after {first}: {answer:?}");
        }
    }
    house.is_sound();
}

#[test]
fn c05_a_stampede_is_one_load_and_a_leader_that_leaves_harms_nobody() {
    let house = House::start();
    let backend = &house.world.backend;
    backend.user_delay.store(600, Ordering::SeqCst);
    // The leader goes away once the load is under way.
    let leader = TcpStream::connect(("127.0.0.1", house.world.ports.envoy)).unwrap();
    (&leader).write_all(&of("dam.operator").into_head()).unwrap();
    until("the load", || backend.user_calls() == 1);
    let thread = {
        let asks = vec![of("dam.operator"); 49];
        let house = &house;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || house.at_once(asks));
            drop(leader);
            waiting.join().unwrap()
        })
    };
    assert!(thread.iter().all(|answer| answer.status == 200), "{thread:?}");
    assert!(backend.user_calls() <= 2, "{} loads", backend.user_calls());
    until("it is stored", || records(&house.redis).len() == 1);

    // A failed load answers those who wait for it, and is kept nowhere.
    backend.user_status.store(500, Ordering::SeqCst);
    let before = backend.user_calls();
    let answers = house.at_once(vec![of("viewer"); 50]);
    assert!(answers.iter().all(|answer| answer.status == 503), "{answers:?}");
    let loads = backend.user_calls() - before;
    backend.user_status.store(0, Ordering::SeqCst);
    // Late ones begin another load; the breaker may be open for a moment.
    assert!(loads < 10, "{loads} loads");
    until("it is answered again", || house.world.ask(of("viewer")).status != 503);

    // What another replica takes away or writes meanwhile is no harm.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                house.redis.say("FLUSHALL");
            }
        });
        let answers = house.at_once(vec![of("water.manager"); 50]);
        stop.store(true, Ordering::SeqCst);
        assert!(answers.iter().all(|answer| answer.status != 503), "{answers:?}");
    });
    until("nothing is in flight", || house.world.metric("portcullis_checks_in_flight", &[]) < 0.1);
    house.is_sound();
}

#[test]
fn c07_a_cached_decision_of_opas_ends_with_the_token_and_with_the_rights() {
    let leeway = "  algorithms: [RS256, ES256]\n";
    let house = House::with(|setup| {
        setup
            .portcullis(leeway, "  algorithms: [RS256, ES256]\n  leeway: 0s\n")
            .portcullis("user_context:\n", "user_context:\n  ttl: 1s\n  refresh_ahead: 0s\n")
    });
    let ends = token::now() + 4;
    let ask = Ask::get(OWN).bearer(&Token::of("dam.operator").claim("exp", ends).sign());
    assert_eq!(house.world.ask(ask.clone()).status, 200);
    let mut last = None;
    until("it ends", || {
        let answer = house.world.ask(ask.clone());
        let ended = answer.status != 200;
        last = Some(answer);
        ended
    });
    let last = last.unwrap();
    assert_eq!((last.status, last.reason()), (401, "token_expired".to_owned()));
    assert!(token::now() >= ends, "refused before its end");
    // The store's record, OPA's decision and the memory of both end with a change of rights.
    assert_eq!(house.world.ask(of("dam.operator")).status, 200);
    let less = serde_json::json!({ "user-name": "DAM.OPERATOR", "email": "d@example.test",
        "roles": {"SPK": ["CWMS Users"]}, "ts-group-privileges": [] });
    *house.world.backend.user_profile.lock().unwrap() = Some(less);
    until("fewer rights", || house.world.ask(of("dam.operator")).status == 403);
    house.is_sound();
}

/// What stands in Redis' place until it heals.
#[derive(Debug, Clone, Copy)]
enum Stub {
    Silent,
    Closes,
    HalfAReply,
    HandshakeOnly,
}

fn stub(port: u16, kind: Stub, stop: &AtomicBool) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut open = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut buffer = [0; 4096];
        match kind {
            Stub::Silent => {}
            Stub::Closes => continue,
            Stub::HalfAReply => {
                drop(stream.read(&mut buffer));
                drop(stream.write_all(b"%7\r\n$6\r\nser"));
            }
            Stub::HandshakeOnly => {
                drop(stream.read(&mut buffer));
                let hello = "%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n+OK\r\n+OK\r\n";
                drop(stream.write_all(hello.as_bytes()));
            }
        }
        open.push(stream);
    }
}

#[test]
fn n01_a_redis_that_never_answers_costs_no_answer_and_is_found_when_it_heals() {
    for kind in [Stub::Silent, Stub::Closes, Stub::HalfAReply, Stub::HandshakeOnly] {
        let (at, folder) = (redis::port(), Folder::new());
        let opa = Opa::start(port(), folder.path(), &[&root().join("policies/cwms")]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| stub(at, kind, &stop));
            // There from the start: nothing waits for it.
            let world = setup(at, opa.port).start();
            let mut slowest = Duration::ZERO;
            for user in ["dam.operator", "viewer", "admin", "water.manager", "one", "two"] {
                let start = Instant::now();
                let answer = world.ask(of(user));
                slowest = slowest.max(start.elapsed());
                assert_ne!(answer.status, 503, "{kind:?} {user}: {answer:?}");
            }
            assert!(slowest < Duration::from_secs(8), "{kind:?}: {slowest:?}");
            stop.store(true, Ordering::SeqCst);
            let mut next = 0;
            // The stub lets go of its port, and the real one takes it.
            until("the port is free", || TcpListener::bind(("127.0.0.1", at)).is_ok());
            let real = folder.path().join("redis");
            std::fs::create_dir_all(&real).unwrap();
            let args = ["--save", "", "--bind", "127.0.0.1", "--port", &at.to_string()];
            let args = args.map(str::to_owned).to_vec();
            let server = Server::launch(at, real, args);
            until("it is written to", || {
                next += 1;
                assert_ne!(world.ask(of(&format!("later.{next}"))).status, 503);
                let healed = world.ask(of("dam.operator")).status == 200;
                assert!(healed);
                !records(&server).is_empty()
            });
        });
    }
}

#[test]
fn o01_it_ends_in_time_while_redis_and_opa_hang() {
    let mut house = House::with(|setup| {
        setup.portcullis("\nuser_context:\n", "\ndrain: { grace: 4s }\nuser_context:\n")
    });
    assert_eq!(house.world.ask(of("dam.operator")).status, 200);
    house.redis.signal("STOP");
    house.opa.process.signal("STOP");
    let (port, ask) = (house.world.ports.envoy, of("viewer"));
    let waiting = std::thread::spawn(move || ask.send(port));
    until("it is in flight", || house.world.metric("portcullis_checks_in_flight", &[]) > 0.5);
    let process = house.world.portcullis.as_mut().unwrap();
    let start = Instant::now();
    process.signal("TERM");
    let status = process.ended(Duration::from_secs(15));
    assert!(status.success(), "{status}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let answer = waiting.join().unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(house.world.audited().len(), 2, "the one in flight too");
    house.redis.signal("CONT");
    house.opa.process.signal("CONT");
}

#[test]
fn o04_odd_names_reach_redis_and_opa_and_harm_nobody() {
    let house = House::start();
    for fill in [0, 63, 127, 199, 255] {
        for odd in ["€", "🦀", "\u{0}", "\r\nSET x y\r\n", "\u{2028}", "%s{}", "*"] {
            let name = format!("{}{odd}", "a".repeat(fill));
            let subject = Token::of(&name).claim("sub", name.as_str()).sign();
            let answer = house.world.ask(Ask::get(OWN).bearer(&subject));
            // Nobody whom the user API knows.
            assert_eq!(
                (answer.status, answer.reason()),
                (403, "unknown_user".to_owned()),
                "{name}"
            );
            let target = format!("/cwms-data/timeseries?office={}", "%E2%82%AC".repeat(fill + 1));
            let answer = house.world.ask(Ask::get(&target).bearer(&subject));
            assert!((400..500).contains(&answer.status), "{name}: {answer:?}");
        }
    }
    assert_eq!(house.redis.say("EXISTS x").trim(), ":0", "no name becomes a command");
    assert_eq!(house.world.ask(of("dam.operator")).status, 200);
    house.is_sound();
}
