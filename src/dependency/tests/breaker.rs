//! The breaker's states, with a clock of the test's own.

use std::time::{Duration, Instant};

use crate::dependency::breaker::{Breaker, Sign};
use crate::dependency::{BreakerConfig, CallError};
use crate::model::HumanDuration;
use crate::telemetry::BreakerState;

const BAD: Sign = Sign::Bad("it fails");

fn breaker() -> Breaker {
    let config = BreakerConfig { failures: 3, open_for: HumanDuration::secs(1), slow_after: None };
    Breaker::new("test".into(), &config, Duration::from_secs(1))
}

/// Calls that end at once, each with its sign.
fn run(breaker: &Breaker, now: Instant, signs: &[Sign]) {
    for sign in signs {
        breaker.permit(now, None).unwrap().end(*sign, None, now);
    }
}

fn is(breaker: &Breaker, now: Instant, state: BreakerState) -> bool {
    breaker.state(now).breaker == state
}

#[test]
fn failures_in_a_row_open_it_and_a_good_call_starts_the_row_again() {
    let (breaker, now) = (breaker(), Instant::now());
    run(&breaker, now, &[BAD, BAD, Sign::Good, Sign::Good, Sign::Good, BAD, BAD]);
    assert!(is(&breaker, now, BreakerState::Closed));
    run(&breaker, now, &[BAD]);
    assert!(is(&breaker, now, BreakerState::Open));
    assert_eq!(breaker.permit(now, None).err(), Some(CallError::Open));
    let state = breaker.state(now + Duration::from_secs(7));
    assert_eq!(state.since, Duration::from_secs(7));
    assert_eq!(state.last_error, Some(("it fails", Duration::from_secs(7))));
}

#[test]
fn failing_every_other_time_opens_it_too_but_not_over_a_long_time() {
    let (breaker, now) = (breaker(), Instant::now());
    for n in 0..20 {
        let later = now + Duration::from_secs(6) * n;
        run(&breaker, later, &[Sign::Good, BAD]);
    }
    assert!(is(&breaker, now, BreakerState::Closed), "seldom");
    let later = now + Duration::from_mins(10);
    for _ in 0..6 {
        assert!(is(&breaker, later, BreakerState::Closed));
        run(&breaker, later, &[Sign::Good, BAD]);
    }
    assert!(is(&breaker, later, BreakerState::Open), "half of many");
}

#[test]
fn s3_6_what_one_caller_can_bring_about_moves_it_neither_way() {
    let (breaker, now) = (breaker(), Instant::now());
    run(&breaker, now, &[Sign::There; 100]);
    assert!(is(&breaker, now, BreakerState::Closed));
    // Nor does it hide that all others fail.
    run(&breaker, now, &[BAD, Sign::There, BAD, Sign::There, BAD]);
    assert!(is(&breaker, now, BreakerState::Open));
}

#[test]
fn exactly_one_call_tries_again_and_its_end_decides() {
    let (breaker, now) = (breaker(), Instant::now());
    run(&breaker, now, &[BAD; 3]);
    let later = now + Duration::from_secs(1);
    assert!(breaker.permit(later.checked_sub(Duration::from_millis(1)).unwrap(), None).is_err());
    let probe = breaker.permit(later, None).unwrap();
    assert!(is(&breaker, later, BreakerState::HalfOpen));
    assert!((0..100).all(|_| breaker.permit(later, None).is_err()));
    probe.end(BAD, None, later);
    assert!(breaker.permit(later, None).is_err(), "open again, and as long");
    let latest = later + Duration::from_secs(1);
    assert_eq!(breaker.state(latest).since, Duration::from_secs(2), "one failure, one since");
    breaker.permit(latest, None).unwrap().end(Sign::Good, None, latest);
    assert!(is(&breaker, latest, BreakerState::Closed));
    run(&breaker, latest, &[BAD, BAD]);
    assert!(is(&breaker, latest, BreakerState::Closed), "counts start anew");
}

#[test]
fn a_probe_that_leaves_without_a_word_makes_room_for_the_next() {
    let (breaker, now) = (breaker(), Instant::now());
    run(&breaker, now, &[BAD; 3]);
    drop(breaker.permit(now + Duration::from_secs(1), None).unwrap());
    let later = now + Duration::from_secs(2);
    breaker.permit(later, None).unwrap().end(Sign::There, None, later);
    assert!(is(&breaker, later, BreakerState::Closed), "a 404 says that it is back");
}

#[test]
fn what_began_before_the_change_says_nothing_after_it() {
    let (breaker, now) = (breaker(), Instant::now());
    let old: Vec<_> = (0..9).map(|_| breaker.permit(now, None).unwrap()).collect();
    run(&breaker, now, &[BAD; 3]);
    let mut old = old.into_iter();
    old.next().unwrap().end(Sign::Good, None, now);
    assert!(is(&breaker, now, BreakerState::Open));
    let later = now + Duration::from_secs(1);
    breaker.permit(later, None).unwrap().end(Sign::Good, None, later);
    old.for_each(|permit| permit.end(BAD, None, later));
    assert!(is(&breaker, later, BreakerState::Closed));
}

#[test]
fn slow_calls_are_failures() {
    let (breaker, now) = (breaker(), Instant::now());
    let later = now + Duration::from_millis(801);
    for _ in 0..3 {
        breaker.permit(now, None).unwrap().end(Sign::Good, None, later);
    }
    assert!(is(&breaker, later, BreakerState::Open));
    assert!(breaker.state(later).last_error.unwrap().0.contains("slow"));
}

#[test]
fn values_that_make_no_breaker_are_problems() {
    let timeout = HumanDuration::secs(1);
    assert!(BreakerConfig::default().problems(timeout).is_empty());
    let odd = BreakerConfig {
        failures: 0,
        open_for: HumanDuration::secs(3600),
        slow_after: Some(HumanDuration::secs(2)),
    };
    let pointers: Vec<_> = odd.problems(timeout).into_iter().map(|p| p.pointer).collect();
    assert_eq!(pointers, ["/failures", "/open_for", "/slow_after"]);
}

#[test]
fn s3_6_one_user_whom_it_chokes_on_does_not_take_it_from_all_others() {
    let (breaker, now) = (breaker(), Instant::now());
    let fails = |user| breaker.permit(now, None).unwrap().end(BAD, Some(user), now);
    for _ in 0..100 {
        fails(1);
    }
    assert!(is(&breaker, now, BreakerState::Closed), "one user alone");
    fails(2);
    assert!(is(&breaker, now, BreakerState::Closed));
    fails(3);
    assert!(is(&breaker, now, BreakerState::Open), "three of three");
    // Whether it is back does not show with the one whom it chokes on: others try before him.
    let later = now + Duration::from_secs(1);
    assert!(breaker.permit(later, Some(1)).is_err());
    breaker.permit(later, Some(4)).unwrap().end(Sign::Good, Some(4), later);
    assert!(is(&breaker, later, BreakerState::Closed));
    // Without a connection it is nobody's doing.
    run(&breaker, later, &[BAD, BAD, BAD]);
    assert!(is(&breaker, later, BreakerState::Open));
}

#[test]
fn while_it_fails_for_all_it_is_called_no_more_often_for_those_it_failed_before() {
    let (breaker, now) = (breaker(), Instant::now());
    for user in 0..64 {
        if let Ok(permit) = breaker.permit(now, Some(user)) {
            permit.end(BAD, Some(user), now);
        }
    }
    let (mut calls, step) = (0, Duration::from_millis(10));
    for n in 1..=1000 {
        let at = now + step * n;
        for user in 0..64 {
            if let Ok(permit) = breaker.permit(at, Some(user)) {
                permit.end(BAD, Some(user), at);
                calls += 1;
            }
        }
    }
    assert!((5..=10).contains(&calls), "{calls} calls in ten times `open_for`");
    let later = now + step * 1000 + Duration::from_millis(1500);
    breaker.permit(later, Some(1)).unwrap().end(Sign::Good, Some(1), later);
    assert!(is(&breaker, later, BreakerState::Closed), "one who was blamed finds it back, too");
}

#[test]
fn s3_6_it_is_gone_only_by_what_no_caller_can_bring_about() {
    let mute = Sign::Mute("no answer in time");
    let now = Instant::now();
    let silent = breaker();
    run(&silent, now, &[BAD, BAD, mute]);
    assert!(is(&silent, now, BreakerState::Open));
    assert!(!silent.is_gone(), "it ends in silence");
    let later = now + Duration::from_secs(1);
    silent.permit(later, None).unwrap().end(BAD, None, later);
    assert!(silent.is_gone(), "the one who tried was refused");
    let latest = later + Duration::from_secs(1);
    silent.permit(latest, None).unwrap().end(mute, None, latest);
    assert!(!silent.is_gone());
    let failing = breaker();
    run(&failing, now, &[mute, mute, BAD]);
    assert!(is(&failing, now, BreakerState::Open) && !failing.is_gone());
    let dead = breaker();
    run(&dead, now, &[BAD; 3]);
    assert!(dead.is_gone());
    let later = now + Duration::from_secs(1);
    dead.permit(later, None).unwrap().end(Sign::Good, None, later);
    assert!(!dead.is_gone());
}
