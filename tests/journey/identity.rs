//! What the policy is told of the caller.

use serde_json::{Value, json};

use super::{House, get, get_as};
use crate::harness::Token;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// A token and a profile that say more than they may.
const CLAIMS: &str = "issuers:
- name: playground
  issuer: https://idp.playground.test
  audiences: [water-data]
  keys: { file: jwks.json }
  claims: [preferred_username, method, identity, context, mtls]
user_context: { source: claims }
policy:
  paths: [test.rego]
  entry_points:
  - { name: who, rule: data.test.decision }
routes:
- { name: all, match: { path_prefix: / }, access: optional, policy: who }
";

const REGO: &str = "package test
decision := {\"allow\": true, \"reason\": input.identity.method}
";

#[test]
fn s2_2_how_the_caller_authenticated_is_the_cores_word() {
    let house = House::start(CLAIMS, REGO);
    let token = Token::of("dam.operator")
        .claim("method", "mtls")
        .claim("identity", json!({"method": "mtls", "subject": "u-admin"}))
        .claim("context", json!({"method": "DELETE"}));
    let request = get_as("/a", &token.sign());
    house.check(&request, house.now()).is("allow", "jwt");
    let input = house.input(&request);
    let expected = json!({
        "issuer": "https://idp.playground.test", "subject": "sub-dam.operator", "method": "jwt",
    });
    assert_eq!(input["identity"], expected, "{input}");
    assert_eq!(input["context"]["method"], "GET", "s2_3: {input}");
    assert_eq!(input["token"]["method"], "mtls", "a claim stays a claim: {input}");

    let anonymous = house.input(&get("/a", &[("x-identity", "mtls")]));
    assert_eq!(anonymous["identity"], json!({"method": "none"}), "{anonymous}");
    assert!(anonymous.get("token").is_none() && anonymous.get("user").is_none(), "{anonymous}");
}

#[test]
fn s5_3_roles_are_a_flat_union_and_known_by_office_too() {
    let house = House::quickstart();
    let profile = json!({
        "user-name": "DAM.OPERATOR", "email": "d@example.test",
        "roles": {"SPK": ["dam_operator", "CWMS Users"], "SWT": ["Viewer Users", "CWMS Users"]},
        "ts-group-privileges": [],
    });
    *house.backend.user_profile.lock().unwrap() = Some(profile);
    let token = Token::of("dam.operator").sign();
    let user = house.input(&get_as(OWN, &token))["user"].clone();
    assert_eq!(user["roles"], json!(["CWMS Users", "Viewer Users", "dam_operator"]), "{user}");
    assert_eq!(user["offices"], json!(["SPK", "SWT"]), "{user}");
    assert_eq!(user["office_roles"]["SWT"], json!(["Viewer Users", "CWMS Users"]), "{user}");
    // A rule about an office uses who is what where: he operates in one and looks in the other.
    let reason = |office: &str| {
        let target = format!("/cwms-data/timeseries?office={office}&name=Elev");
        house.check(&get_as(&target, &token), house.now()).told().1.to_owned()
    };
    assert_eq!(reason("SPK"), "dam_operator");
    assert_eq!(reason("SWT"), "viewer_users");
}

#[test]
fn s7_4_constraints_are_what_the_caller_may_and_what_he_named() {
    let house = House::quickstart();
    let of = |target: &str, user: Option<&str>| {
        let request = match user {
            Some(user) => get_as(target, &Token::of(user).sign()),
            None => get(target, &[]),
        };
        let ended = house.check(&request, house.now());
        let constraints = ended.decision().constraints().cloned();
        // What audit tells is what the decision says.
        assert_eq!(ended.record.constraints(), constraints.as_deref());
        let constraints = constraints.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        (ended.told().0, constraints.unwrap_or_default())
    };
    let (outcome, constraints) = of("/cwms-data/offices", None);
    assert_eq!((outcome.as_str(), &constraints["allowed_offices"]), ("allow", &json!([])));
    assert_eq!(constraints["embargo_rules"], json!({"default": 168}), "{constraints}");

    let (outcome, constraints) = of(OWN, Some("dam.operator"));
    assert_eq!((outcome.as_str(), &constraints["allowed_offices"]), ("allow", &json!(["SPK"])));
    assert!(constraints["embargo_rules"]["default"].as_i64().unwrap() > 0, "{constraints}");

    let (outcome, constraints) = of("/cwms-data/timeseries?office=SWT", Some("water.manager"));
    assert_eq!((outcome.as_str(), &constraints["allowed_offices"]), ("allow", &json!(["SWT"])));
    assert_eq!(constraints["embargo_exempt"], json!(true), "{constraints}");

    let (outcome, constraints) = of("/cwms-data/timeseries?office=ABC", Some("admin"));
    assert_eq!((outcome.as_str(), &constraints["allowed_offices"]), ("allow", &json!(["ABC"])));
    assert_eq!(of("/cwms-data/timeseries?office=SWT", Some("dam.operator")).0, "deny 403");
}
