//! Routes that are open while OPA fails: until when, and what they still hold to.

use std::time::Duration;

use portcullis::app;
use portcullis::config;

use super::{House, get};
use crate::harness::{Folder, port};
use crate::kit::token;

fn date(from_now: i64) -> String {
    chrono::DateTime::from_timestamp(token::now() + from_now, 0).unwrap().to_rfc3339()
}

/// Nobody listens where OPA should.
fn config(until: &str) -> String {
    format!(
        "policy:
  engine: opa
  opa: {{ url: \"http://127.0.0.1:{}\", timeout: 5s }}
  entry_points: [{{ name: e, rule: data.p.decision }}]
headers: {{ managed: [x-who] }}
routes:
- {{ name: closed, match: {{ path: /closed }}, access: public, policy: e }}
- {{ name: open, match: {{ path: /open }}, access: public, policy: e, open_while_opa_fails: {{ until: \"{until}\", reason: a test }} }}
- {{ name: needs, match: {{ path: /needs }}, access: public, policy: e, require_headers: [x-who], open_while_opa_fails: {{ until: \"{until}\", reason: a test }} }}
",
        port()
    )
}

#[test]
fn s8_1_a_route_is_open_until_its_date_and_no_longer() {
    let house = House::start(&config(&date(3600)), "");
    let now = house.now();
    house.cold(&get("/closed", &[]), now).is("unavailable", "policy_unavailable");
    let open = house.cold(&get("/open", &[]), now);
    open.is("allow", "policy_open");
    assert_eq!(open.record.mark(), Some("open"));
    assert!(house.warm(&get("/open", &[]), now).is_none(), "it is not kept");
    let needs = house.cold(&get("/needs", &[]), now);
    needs.is("deny 403", "required_header_missing");
    assert_eq!(needs.record.mark(), Some("open"));
    let last = now.plus(Duration::from_secs(3500));
    house.cold(&get("/open", &[]), last).is("allow", "policy_open");
    let past = now.plus(Duration::from_hours(1));
    house.cold(&get("/open", &[]), past).is("unavailable", "policy_unavailable");
    // A process that starts after the date serves, with these routes closed.
    let house = House::start(&config(&date(-1)), "");
    house.cold(&get("/open", &[]), house.now()).is("unavailable", "policy_unavailable");
}

#[test]
fn s8_1_a_date_that_is_past_or_far_and_a_section_without_effect_are_refused() {
    let folder = Folder::new();
    let refused = |text: &str| -> Vec<String> {
        let file = folder.write("portcullis.yaml", text);
        let none = config::Environment::default();
        match config::load_with(&file, &none, |_, _| Vec::new()) {
            Err(report) => report.faults().iter().map(|fault| fault.pointer.clone()).collect(),
            Ok(loaded) => match app::prepare(&loaded.config, loaded.base()) {
                // It is served, and closed.
                Ok(_) if !app::past_dates(&loaded.config).is_empty() => {
                    app::past_dates(&loaded.config).into_iter().map(|past| past.pointer).collect()
                }
                Ok(_) => {
                    let notes = loaded.notes().to_string();
                    assert!(notes.contains("passes everybody while OPA fails (a test)"), "{notes}");
                    Vec::new()
                }
                Err(problems) => problems.into_iter().map(|problem| problem.pointer).collect(),
            },
        }
    };
    let at = |field: &str| {
        [1, 2].map(|route| format!("/routes/{route}/open_while_opa_fails{field}")).to_vec()
    };
    let day = 24 * 3600;
    assert_eq!(refused(&config(&date(89 * day))), Vec::<String>::new());
    assert_eq!(refused(&config(&date(-1))), at("/until"));
    assert_eq!(refused(&config(&date(91 * day))), at("/until"));
    assert!(refused(&config("2027-01-31")).contains(&at("/until")[0]));
    let sound = config(&date(day));
    assert_eq!(refused(&sound.replace("reason: a test", "reason: \" \"")), at("/reason"));
    assert_eq!(refused(&sound.replace(", reason: a test", "")), at(""));
    let idle = sound.replace("access: public, policy: e", "access: public");
    assert!(refused(&idle).contains(&"/routes/1/open_while_opa_fails".to_owned()));
    let (before, rest) = sound.split_once("  engine: opa\n").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    folder.write("p.rego", "package p\n\ndecision := true\n");
    assert_eq!(refused(&format!("{before}  paths: [p.rego]\n{after}")), at(""));
}
