//! A Check that finds everything in memory.

use std::sync::atomic::Ordering;

use portcullis::clock::Now;
use portcullis::model::{CacheState, Request};

use super::{Ended, House, get, get_as};
use crate::harness::Token;
use crate::kit::token::Signer;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const OTHER: &str = "/cwms-data/timeseries?office=SWT&name=Elev";

/// Allow, deny, anonymous, challenged, public, refused token.
fn requests() -> Vec<(&'static str, Request)> {
    let token = Token::of("dam.operator");
    vec![
        ("allow", get_as(OWN, &token.sign())),
        ("deny", get_as(OTHER, &token.sign())),
        ("anonymous", get("/cwms-data/offices", &[])),
        ("challenged", get(OWN, &[])),
        ("public", get("/cwms-data/health", &[])),
        ("forged", get_as(OWN, &token.signer(Signer::Forger).sign())),
        ("no route", get("/elsewhere", &[])),
        ("odd path", get("/cwms-data/../offices", &[])),
    ]
}

/// All of the answer, with the evaluation's own name taken out.
fn answer(ended: &Ended) -> String {
    let text = format!("{:?}", ended.outcome);
    ended.record.decision_id().map_or(text.clone(), |id| text.replace(id, "ID"))
}

#[test]
fn s6_5_a_cached_answer_equals_a_fresh_one() {
    let house = House::quickstart();
    let now = house.now();
    for (what, request) in requests() {
        let cold = house.cold(&request, now);
        let warm = house.warm(&request, now).unwrap_or_else(|| panic!("{what}: not warm"));
        let texts = [&cold, &warm].map(|ended| format!("{:?}", ended.outcome));
        assert_eq!(texts[0], texts[1], "{what}");
        assert_eq!(cold.record.route, warm.record.route, "{what}");
        assert_eq!(cold.record.subject(), warm.record.subject(), "{what}");
        assert_eq!(cold.record.constraints(), warm.record.constraints(), "{what}");
        let fresh = House::quickstart().check(&request, now);
        // Both are of one moment, so that only the evaluation's name may differ.
        assert_eq!(lifeless(&answer(&fresh)), lifeless(&answer(&warm)), "{what}");
    }
}

/// Without expiries and monotonic times, which say nothing to a client.
fn lifeless(text: &str) -> String {
    text.split(", decided_at: ").next().unwrap_or_default().to_owned()
}

#[test]
fn a_warm_check_needs_no_runtime_and_makes_no_call() {
    let house = House::quickstart();
    let now = house.now();
    // Signed once: a token of the next second is another.
    let requests = requests();
    for (_, request) in &requests {
        house.check(request, now);
    }
    assert_eq!(house.backend.user_calls(), 1, "one user, one look-up");
    // Nobody to ask from here on.
    house.backend.user_status.store(500, Ordering::SeqCst);
    for _ in 0..100 {
        for (what, request) in &requests {
            assert!(house.warm(request, now).is_some(), "{what}");
        }
    }
    let warm = house.warm(&requests[0].1, now).unwrap();
    let caches = [warm.record.token_cache, warm.record.context_cache, warm.record.decision_cache];
    assert_eq!(caches, [CacheState::Hit; 3]);
    assert_eq!(house.backend.user_calls(), 1);
}

#[test]
fn what_is_not_in_memory_is_left_to_the_other_way() {
    let house = House::quickstart();
    let now = house.now();
    let (token, other) = (Token::of("dam.operator").sign(), Token::of("viewer").sign());
    assert!(house.warm(&get_as(OWN, &token), now).is_none(), "the token was never seen");
    house.check(&get_as(OWN, &token), now);
    assert!(house.warm(&get_as(OWN, &other), now).is_none(), "another token");
    assert!(house.warm(&get_as(OTHER, &token), now).is_none(), "another question");
    assert!(house.warm(&get_as(OWN, &token), now).is_some());
}

#[test]
fn c05_fifty_checks_at_once_are_one_look_up_and_one_evaluation() {
    let house = House::quickstart();
    house.backend.user_delay.store(200, Ordering::SeqCst);
    let (request, now) = (get_as(OWN, &Token::of("dam.operator").sign()), house.now());
    let ids: Vec<_> = std::thread::scope(|scope| {
        let one = || house.check(&request, now).decision().id.to_string();
        let all: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|check| check.join().unwrap()).collect()
    });
    assert_eq!(house.backend.user_calls(), 1);
    assert!(ids.iter().all(|id| *id == ids[0]), "s6_3 the evaluation is shared: {ids:?}");
}

#[test]
fn s6_6_an_answer_that_reads_the_time_is_not_served_past_its_lifetime() {
    let house = House::quickstart();
    let (request, now) = (get_as(OWN, &Token::of("dam.operator").sign()), house.now());
    let first = house.check(&request, now);
    let lifetime = first.decision().expires.expect("it is cached").left(&now);
    assert!(lifetime.as_secs() <= 300, "{lifetime:?}");
    let late: Now = now.plus(lifetime);
    assert!(house.warm(&request, late).is_none(), "served at its end");
    let second = house.check(&request, late);
    assert_ne!(first.decision().id, second.decision().id);
}
