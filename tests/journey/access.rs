//! Who may come with what credential.

use super::{House, get};
use crate::harness::Token;
use crate::kit::token::Signer;

const CONFIG: &str = "issuers:
- name: playground
  issuer: https://idp.playground.test
  audiences: [water-data]
  keys: { file: jwks.json }
policy:
  paths: [test.rego]
  entry_points:
  - { name: who, rule: data.test.decision }
routes:
- { name: public, match: { path: /public }, access: public }
- { name: public-policy, match: { path: /public-policy }, access: public, policy: who }
- { name: optional, match: { path: /optional }, access: optional, policy: who }
- { name: authenticated, match: { path: /authenticated }, access: authenticated, policy: who }
- { name: bare, match: { path: /bare }, access: authenticated }
";

const REGO: &str = "package test
decision := {\"allow\": true, \"reason\": concat(\"_\", [\"as\", input.identity.method])}
";

#[test]
fn s3_1_each_access_and_each_credential() {
    let house = House::start(CONFIG, REGO);
    let now = house.now();
    let bearer = |token: &Token| format!("Bearer {}", token.sign());
    let good = bearer(&Token::of("dam.operator"));
    let forged = bearer(&Token::of("dam.operator").signer(Signer::Forger));
    let (basic, several) = ("Basic eDp5".to_owned(), format!("{good}, {good}"));
    for (path, credential, outcome, reason) in [
        ("/public", None, "allow", "public_route"),
        ("/public", Some(&good), "allow", "public_route"),
        ("/public", Some(&forged), "allow", "public_route"),
        ("/public", Some(&several), "allow", "public_route"),
        ("/public-policy", Some(&good), "allow", "as_none"),
        ("/public-policy", Some(&forged), "allow", "as_none"),
        ("/optional", None, "allow", "as_none"),
        ("/optional", Some(&good), "allow", "as_jwt"),
        ("/optional", Some(&forged), "deny 401", "token_signature"),
        ("/optional", Some(&several), "deny 400", "credential_ambiguous"),
        ("/optional", Some(&basic), "allow", "as_none"),
        ("/authenticated", None, "deny 401", "credential_missing"),
        ("/authenticated", Some(&good), "allow", "as_jwt"),
        ("/authenticated", Some(&forged), "deny 401", "token_signature"),
        ("/authenticated", Some(&basic), "deny 401", "credential_missing"),
        ("/bare", None, "deny 401", "credential_missing"),
        ("/bare", Some(&good), "allow", "authenticated"),
    ] {
        let headers: Vec<_> =
            credential.map(|text| ("authorization", text.as_str())).into_iter().collect();
        let request = get(path, &headers);
        for _ in 0..2 {
            let ended = house.check(&request, now);
            assert_eq!(ended.told(), (outcome.to_owned(), reason), "{path} with {credential:?}");
        }
    }
    assert_eq!(house.backend.user_calls(), 0, "no user context is configured");
}
