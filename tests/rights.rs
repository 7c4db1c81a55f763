//! What a cached answer may and may not outlive, with the real binary: ids, marks, ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Answer, Ask, Setup, Token, World, grpc};
use crate::kit::token;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// Answers tell all that they can of their Check.
fn talkative() -> Setup {
    let all = "check_id, decision_id, reason, route, subject, policy_revision, token_cache, context_cache, decision_cache";
    let to = format!("envoy: {{ metadata: [{all}] }}\nuser_context:\n");
    Setup::quickstart().portcullis("user_context:\n", &to)
}

/// Contexts live for a second and are not fetched ahead of their end.
fn short_lived() -> Setup {
    let from = "user_context:\n";
    talkative().portcullis(from, "user_context:\n  ttl: 1s\n  refresh_ahead: 0s\n")
}

/// Asks until the answer is as wanted; the time allowed is generous, the machine may be busy.
fn until(world: &World, ask: &Ask, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let start = Instant::now();
    loop {
        let answer = world.ask(ask.clone());
        if wanted(&answer) {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn s6_3_checks_share_the_id_of_the_evaluation_and_have_ids_of_their_own() {
    let world = talkative().start();
    let bearer = format!("Bearer {}", Token::of("dam.operator").sign());
    let request = grpc::get(OWN, &[("authorization", bearer.as_bytes())]);
    let answers: Vec<_> = (0..3).map(|_| grpc::check(world.ports.check, &request)).collect();
    let all = |name: &str| -> Vec<_> {
        answers.iter().map(|answer| grpc::metadata(answer, name)).collect()
    };
    assert_eq!(all("decision_cache"), ["miss", "hit", "hit"]);
    let ids = all("decision_id");
    assert!(!ids[0].is_empty() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let mut checks = all("check_id");
    checks.sort();
    checks.dedup();
    assert_eq!(checks.len(), 3, "{checks:?}");
    assert!(answers.iter().all(|answer| grpc::status(answer) == 200), "{answers:?}");
    assert_eq!(all("reason"), ["dam_operator"; 3]);
    assert!(!all("policy_revision")[0].is_empty() && !all("subject")[0].contains("dam"));
    // The header carries the evaluation's id.
    let text = format!("{:?}", answers[2].http_response);
    assert!(text.contains(&ids[0]), "{text}");
}

#[test]
fn s5_6_every_answer_on_a_stale_context_is_marked() {
    let from = "    credential: caller\n";
    let to = "    credential: caller\n    on_failure: stale\n    stale_for: 10m\n";
    let world = short_lived().portcullis(from, to).start();
    let bearer = format!("Bearer {}", Token::of("dam.operator").sign());
    let request = grpc::get(OWN, &[("authorization", bearer.as_bytes())]);
    let check = || grpc::check(world.ports.check, &request);
    let mark = |answer: &_| grpc::metadata(answer, "context_cache");
    assert_eq!(mark(&check()), "miss");
    world.backend.user_status.store(500, Ordering::SeqCst);
    let start = Instant::now();
    while mark(&check()) != "stale" {
        assert!(start.elapsed() < Duration::from_secs(20), "never stale");
        std::thread::sleep(Duration::from_millis(50));
    }
    for _ in 0..3 {
        let answer = check();
        assert_eq!((grpc::status(&answer), mark(&answer)), (200, "stale".to_owned()));
        let decision = grpc::metadata(&answer, "decision_cache");
        assert_eq!(decision, "miss", "a decision on stale ground is not kept");
    }
}

#[test]
fn c07_an_answer_ends_with_the_token() {
    let leeway = "  algorithms: [RS256, ES256]\n";
    let world = Setup::quickstart()
        .portcullis(leeway, "  algorithms: [RS256, ES256]\n  leeway: 0s\n")
        .start();
    let ends = token::now() + 3;
    let ask = Ask::get(OWN).bearer(&Token::of("dam.operator").claim("exp", ends).sign());
    let first = world.ask(ask.clone());
    assert_eq!(first.status, 200, "{first:?}");
    let last = until(&world, &ask, |answer| answer.status != 200);
    assert_eq!((last.status, last.reason()), (401, "token_expired".to_owned()), "{last:?}");
    assert!(token::now() >= ends, "refused before its end");
    let late = world.ask(ask);
    assert_eq!(late.status, 401, "{late:?}");
}

#[test]
fn c07_a_change_of_roles_is_seen_within_the_contexts_lifetime() {
    let world = short_lived().start();
    let ask = Ask::get(OWN).bearer(&Token::of("dam.operator").sign());
    assert_eq!(world.ask(ask.clone()).status, 200);
    let less = json!({ "user-name": "DAM.OPERATOR", "email": "d@example.test",
        "roles": {"SPK": ["CWMS Users"]}, "ts-group-privileges": [] });
    *world.backend.user_profile.lock().unwrap() = Some(less);
    let denied = until(&world, &ask, |answer| answer.status != 200);
    assert_eq!(denied.status, 403, "{denied:?}");
    *world.backend.user_profile.lock().unwrap() = None;
    until(&world, &ask, |answer| answer.status == 200);
    // A user who is gone is denied as such, not served from memory.
    world.backend.user_status.store(404, Ordering::SeqCst);
    let gone = until(&world, &ask, |answer| answer.status != 200);
    assert_eq!((gone.status, gone.reason()), (403, "unknown_user".to_owned()), "{gone:?}");
}
