//! Rights that end or change (C07), at a time that the test moves.

use std::time::Duration;

use serde_json::json;

use super::{House, get_as};
use crate::harness::Token;

const CONFIG: &str = "issuers:
- name: playground
  issuer: https://idp.playground.test
  audiences: [water-data]
  keys: { file: jwks.json }
  leeway: 0s
  claims: [preferred_username, roles]
user_context: { source: claims }
policy:
  paths: [test.rego]
  entry_points:
  - { name: main, rule: data.test.decision }
routes:
- { name: all, match: { path_prefix: / }, access: authenticated, policy: main }
";

const REGO: &str = "package test
decision := {\"allow\": true, \"reason\": \"reader\", \"ttl\": 60} if \"reader\" in input.user.roles
else := {\"allow\": false, \"reason\": \"no_reader\", \"ttl\": 60}
";

#[test]
fn c07_a_decision_ends_with_the_token() {
    let house = House::start(CONFIG, REGO);
    let now = house.now();
    let ends = now.unix_secs() + 3;
    let token = Token::of("u").claim("roles", json!(["reader"])).claim("exp", ends);
    let request = get_as("/a", &token.sign());
    house.check(&request, now).is("allow", "reader");
    let before = now.plus(Duration::from_secs(1));
    house.warm(&request, before).expect("it is kept").is("allow", "reader");
    let after = now.plus(Duration::from_secs(4));
    house.check(&request, after).is("deny 401", "token_expired");
    assert!(
        house.cold(&request, now).decision().expires.unwrap().left(&now) <= Duration::from_secs(3)
    );
}

#[test]
fn c07_two_tokens_of_one_subject_keep_their_own_roles() {
    let house = House::start(CONFIG, REGO);
    let now = house.now();
    let with =
        |roles: serde_json::Value| get_as("/a", &Token::of("u").claim("roles", roles).sign());
    let (reader, nobody) = (with(json!(["reader"])), with(json!([])));
    for _ in 0..3 {
        house.check(&reader, now).is("allow", "reader");
        house.check(&nobody, now).is("deny 403", "no_reader");
    }
}

#[test]
fn c01_a_token_of_another_audience_is_refused_whatever_was_cached() {
    let routes = "routes:\n- { name: own, match: { path: /own }, access: authenticated, audiences: [other], policy: main }\n";
    let config = CONFIG.replace("audiences: [water-data]", "audiences: [water-data, other]");
    let house = House::start(&config.replace("routes:\n", routes), REGO);
    let now = house.now();
    let token = Token::of("u").claim("roles", json!(["reader"])).sign();
    for _ in 0..2 {
        house.check(&get_as("/a", &token), now).is("allow", "reader");
        house.check(&get_as("/own", &token), now).is("deny 401", "token_audience");
    }
}
