//! Envoy, Portcullis and an OPA server decide together.

use std::time::{Duration, Instant};

use crate::harness::{Ask, Folder, Opa, Setup, Token, World, port, root};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const OTHER: &str = "/cwms-data/timeseries?office=SWT&name=Elev";

fn world(opa: u16) -> World {
    let section = format!("engine: opa\n  opa: {{ url: \"http://127.0.0.1:{opa}\" }}\n  paths: [");
    Setup::quickstart().portcullis("paths: [", &section).start()
}

#[test]
fn the_story_is_decided_by_an_opa_server() {
    let folder = Folder::new();
    let opa = Opa::start(port(), folder.path(), &[&root().join("policies/cwms")]);
    let world = world(opa.port);
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    let token = Token::of("dam.operator").sign();
    let answer = world.ask(Ask::get(OWN).bearer(&token));
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = answer.seen("x-cwms-auth-context");
    let context: serde_json::Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!(context["constraints"]["allowed_offices"], serde_json::json!(["SPK"]), "{context}");
    assert_ne!(context["policy"]["decision_id"], "", "{context}");
    let answer = world.ask(Ask::get(OTHER).bearer(&token));
    assert_eq!((answer.status, answer.reason()), (403, "office_not_yours".to_owned()));
    assert_eq!(world.counts(), [2, 2, 0]);
    assert!(world.metric("portcullis_dependency_calls_total", &["\"opa\"", "\"ok\""]) > 3.5);
}

#[test]
fn s8_1_opa_killed_in_traffic_is_unavailable_and_recovers() {
    let folder = Folder::new();
    let policies = root().join("policies/cwms");
    let mut opa = Opa::start(port(), folder.path(), &[&policies]);
    let world = world(opa.port);
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200);
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(5));
    let answer = world.ask(Ask::get("/cwms-data/units"));
    assert_eq!((answer.status, answer.reason()), (503, "policy_unavailable".to_owned()));
    assert_eq!(world.counted("error"), 1);
    assert_eq!(world.backend.requests(), 1);
    let _opa = Opa::start(opa.port, folder.path(), &[&policies]);
    let began = Instant::now();
    while world.ask(Ask::get("/cwms-data/units")).status != 200 {
        assert!(began.elapsed() < Duration::from_secs(5), "it does not recover");
        std::thread::sleep(Duration::from_millis(100));
    }
}
