//! A user loses a role; each replica denies.

use super::*;

/// Users of Redis, one for each replica, so that each can be cut off.
const NAMES: [&str; 3] = ["r1", "r2", "r3"];

fn three() -> (Server, World, [Replica; 3]) {
    let server = Server::start(&[]);
    for name in NAMES {
        admit(&server, name, "on");
    }
    let world = setup(Some(server.port)).start();
    let replicas =
        [Replica::of(&world), Replica::start(&world, "r2"), Replica::start(&world, "r3")];
    all_subscribed(&replicas);
    (server, world, replicas)
}

fn admit(server: &Server, name: &str, state: &str) {
    let rules = "resetkeys ~portcullis:* resetchannels &portcullis:* -@all +getrange +set +del \
                 +eval +publish +subscribe +ping";
    let said = server.say(&format!("ACL SETUSER {name} {state} >marker-redis {rules}"));
    assert!(said.starts_with("+OK"), "{said}");
}

fn all_subscribed(replicas: &[Replica]) {
    until("all listen", || replicas.iter().all(Replica::is_subscribed));
}

/// Every replica knows the user with his role, from memory.
fn all_allow(world: &World, replicas: &[Replica], token: &str) {
    rights(world, true);
    replicas[0].invalidates(&["user", ISSUER, "sub-dam.operator"]);
    for replica in replicas {
        until("it allows", || replica.status(token) == 200);
        let calls = world.backend.user_calls();
        assert_eq!(replica.status(token), 200);
        assert_eq!(world.backend.user_calls(), calls, "warm");
    }
}

/// The time from the call on until every one of `replicas` denies.
fn loses(world: &World, by: &Replica, replicas: &[Replica], token: &str) -> Duration {
    rights(world, false);
    assert!(replicas.iter().all(|replica| replica.status(token) == 200), "nobody knows yet");
    let start = Instant::now();
    by.invalidates(&["user", ISSUER, "sub-dam.operator"]);
    for replica in replicas {
        until("it denies", || replica.status(token) == 403);
    }
    start.elapsed()
}

fn median(mut times: Vec<Duration>, what: &str) -> Duration {
    times.sort_unstable();
    println!("{what}: every replica denies within {times:?} of the command");
    times[times.len() / 2]
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn s5_8_a_lost_role_is_denied_by_three_replicas_within_a_second() {
    let (mut server, world, replicas) = three();
    let token = token();
    let round = |n: usize| {
        all_allow(&world, &replicas, &token);
        loses(&world, &replicas[n % 3], &replicas, &token)
    };
    let times = (0..7).map(round).collect();
    assert!(median(times, "connected") < SECOND);
    let lag = replicas[1].metric("portcullis_invalidation_lag_seconds_count");
    assert!(lag >= 1.0 && replicas[1].metric(ASKED) >= 1.0 && replicas[1].metric(RECEIVED) >= 1.0);

    // Connections that were cut a moment ago.
    let cut = |n: usize| {
        all_allow(&world, &replicas, &token);
        assert!(server.say("CLIENT KILL TYPE pubsub").starts_with(':'));
        server.say("CLIENT KILL TYPE normal SKIPME yes");
        loses(&world, &replicas[n % 3], &replicas, &token)
    };
    let times = (0..7).map(cut).collect();
    assert!(median(times, "cut a moment before") < SECOND);

    // A Redis that went, and came again empty.
    let times = (0..3).map(|n| {
        server.kill();
        until("they notice", || replicas.iter().all(|replica| !replica.is_subscribed()));
        let alone = replicas[n % 3].control(&["invalidate", "user", ISSUER, "sub-dam.operator"]);
        assert!(!alone.status.success(), "{alone:?}");
        assert!(replicas[n % 3].metric("portcullis_invalidations_failed_total") >= 1.0);
        server.run();
        for name in NAMES {
            admit(&server, name, "on");
        }
        all_subscribed(&replicas);
        all_allow(&world, &replicas, &token);
        loses(&world, &replicas[n % 3], &replicas, &token)
    });
    let times = times.collect();
    assert!(median(times, "after a restart of Redis") < SECOND);
    assert!(replicas[0].metric("portcullis_subscriptions_total") >= 4.0, "once, and thrice anew");
}

const ASKED: &str = "portcullis_invalidations_total{how=\"asked\",kind=\"user\"}";
const RECEIVED: &str = "portcullis_invalidations_total{how=\"received\",kind=\"user\"}";
const MISSED: &str = "portcullis_invalidations_total{how=\"missed\",kind=\"user\"}";

#[test]
fn s5_8_what_is_invalidated_while_a_replica_is_cut_off_takes_effect_when_it_is_back() {
    let (server, world, replicas) = three();
    let token = token();
    all_allow(&world, &replicas, &token);
    let [first, second, third] = &replicas;
    assert!(server.say("ACL SETUSER r3 off").starts_with("+OK"));
    server.say("CLIENT KILL USER r3");
    until("it is cut off", || !third.is_subscribed());
    rights(&world, false);
    first.invalidates(&["user", ISSUER, "sub-dam.operator"]);
    for replica in [first, second] {
        until("it denies", || replica.status(&token) == 403);
    }
    assert_eq!(third.status(&token), 200, "it cannot know");
    let missed = third.metric(MISSED);
    admit(&server, "r3", "on");
    let back = until("it is back", || third.status(&token) == 403);
    println!("back in touch, it denies after {back:?}");
    assert!(third.metric(MISSED) > missed, "one user, and not everything");
}

#[test]
fn s5_8_a_load_in_flight_keeps_nothing_here_or_in_redis() {
    let (_server, world, replicas) = three();
    let token = token();
    let [first, second, third] = &replicas;
    world.backend.user_delay.store(2_000, std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|scope| {
        let early = scope.spawn(|| second.status(&token));
        until("the load is under way", || world.backend.user_calls() == 1);
        first.invalidates(&["user", ISSUER, "sub-dam.operator"]);
        assert_eq!(early.join().unwrap(), 200, "what was asked before may be answered so");
    });
    world.backend.user_delay.store(0, std::sync::atomic::Ordering::SeqCst);
    rights(&world, false);
    for replica in [second, third] {
        assert_eq!(replica.status(&token), 403, "nothing was kept");
    }
}
