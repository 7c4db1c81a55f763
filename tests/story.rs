//! The quickstart's story, answer by answer.

use crate::harness::{Ask, Setup, Token, World};
use crate::kit::token::Signer;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const OTHER: &str = "/cwms-data/timeseries?office=SWT&name=Elev";

fn context(answer: &crate::harness::Answer) -> serde_json::Value {
    let seen = answer.seen("x-cwms-auth-context");
    assert_eq!(seen.len(), 1, "{answer:?}");
    serde_json::from_str(&seen[0]).unwrap_or_else(|e| panic!("{e}: {seen:?}"))
}

#[test]
fn anonymous_reads_reference_data() {
    let world = Setup::quickstart().start();
    let answer = world.ask(Ask::get("/cwms-data/offices"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let context = context(&answer);
    assert_eq!(context["user"]["id"], "anonymous", "{context}");
    assert_eq!(context["constraints"]["allowed_offices"], serde_json::json!([]), "{context}");
}

#[test]
fn s3_2_anonymous_is_challenged_for_a_time_series() {
    let world = Setup::quickstart().start();
    let answer = world.ask(Ask::get(OWN));
    assert_eq!(answer.status, 401, "{answer:?}");
    let challenge = answer.header("www-authenticate");
    assert!(challenge.starts_with("Bearer realm=\"water-data\""), "{challenge}");
    assert!(!challenge.contains("error"), "no credential came: {challenge}");
    assert_eq!(world.backend.requests(), 0);
}

#[test]
fn a_dam_operator_reads_in_the_own_office_only() {
    let world = Setup::quickstart().start();
    let token = Token::of("dam.operator").sign();
    let answer = world.ask(Ask::get(OWN).bearer(&token));
    assert_eq!(answer.status, 200, "{answer:?}");
    let context = context(&answer);
    assert_eq!(context["user"]["id"], "DAM.OPERATOR", "{context}");
    assert_eq!(context["constraints"]["allowed_offices"], serde_json::json!(["SPK"]), "{context}");
    assert_eq!(context["policy"]["allow"], true, "{context}");
    assert_eq!(answer.seen("authorization"), [format!("Bearer {token}")]);

    let answer = world.ask(Ask::get(OTHER).bearer(&token));
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(world.backend.requests(), 1, "the denied request went no further");
    assert_eq!(world.backend.user_calls(), 1, "the profile was kept");
}

#[test]
fn forged_and_expired_tokens_are_refused() {
    let world = Setup::quickstart().start();
    let good = Token::of("dam.operator");
    refused(&world, &good.clone().signer(Signer::Forger), "token_signature");
    refused(&world, &good.clone().expired(), "token_expired");
    refused(&world, &good.clone().claim("aud", "another"), "token_audience");
    refused(&world, &good.claim("iss", "https://idp.other.test"), "token_issuer");
    assert_eq!(world.backend.user_calls(), 0, "nothing is looked up before it is verified");
    assert_eq!(world.backend.requests(), 0);
}

#[test]
fn both_algorithms_of_the_issuer_work() {
    let world = Setup::quickstart().start();
    let answer =
        world.ask(Ask::get(OWN).bearer(&Token::of("dam.operator").signer(Signer::Ec).sign()));
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn refused(world: &World, token: &Token, reason: &str) {
    let answer = world.ask(Ask::get(OWN).bearer(&token.sign()));
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(answer.reason(), reason, "{answer:?}");
    let challenge = answer.header("www-authenticate");
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
}
