use serde_json::json;

use super::{get, one, with_headers};
use crate::model::{Code, Headers, Request};

fn credential(access: &str, request: &Request) -> Result<Option<String>, Code> {
    let table = one(json!({"access": access}));
    let matched = table.find(request).unwrap();
    match matched.credential() {
        Ok(token) => Ok(token.map(|t| (*t.expose()).to_owned())),
        Err(refusal) => Err(refusal.code),
    }
}

fn with(value: &str) -> Request {
    with_headers("/", &[("authorization", value)])
}

#[test]
fn s3_1_who_may_come_without_a_credential() {
    for request in [get("/"), with("Basic eDp5"), with("Digest realm=\"x\", nonce=\"y\"")] {
        assert_eq!(credential("public", &request), Ok(None));
        assert_eq!(credential("optional", &request), Ok(None));
        assert_eq!(credential("authenticated", &request), Err(Code::CredentialMissing));
    }
    for broken in ["Bearer", "Bearer ", "Bearer a b", "Bearer a\u{e9}", "Bearer ===", "bearer a!"] {
        assert_eq!(credential("public", &with(broken)), Ok(None));
        assert_eq!(
            credential("optional", &with(broken)),
            Err(Code::CredentialMalformed),
            "{broken}"
        );
        assert_eq!(credential("authenticated", &with(broken)), Err(Code::CredentialMalformed));
    }
}

#[test]
fn a_bearer_token_is_read_in_every_case_of_its_scheme() {
    for value in ["Bearer a.b-c_~+/d==", "bearer a.b-c_~+/d==", " BEARER   a.b-c_~+/d== "] {
        let found = credential("authenticated", &with(value));
        assert_eq!(found, Ok(Some("a.b-c_~+/d==".to_owned())), "{value}");
    }
    assert_eq!(credential("authenticated", &with("Bearertoken")), Err(Code::CredentialMissing));
}

#[test]
fn p08_several_credentials_are_never_either_of_them() {
    let raw = Headers::from_pairs([
        ("authorization", b"Bearer a".as_slice()),
        ("authorization", b"Bearer b".as_slice()),
    ]);
    let same = Headers::from_pairs([
        ("authorization", b"Bearer a".as_slice()),
        ("authorization", b"Bearer a".as_slice()),
    ]);
    let mut requests =
        vec![Request { headers: raw, ..get("/") }, Request { headers: same, ..get("/") }];
    for value in [
        "Bearer a,Bearer b",
        "Bearer a, Basic eDp5",
        "Basic eDp5, Bearer a",
        "Basic eDp5,Basic eDp5",
        "Bearer a,",
        "Bearer a,b",
        "Digest realm=\"x\",Bearer a",
        "Digest realm=\"x\",bearer",
    ] {
        requests.push(with(value));
    }
    for request in &requests {
        for access in ["optional", "authenticated"] {
            let found = credential(access, request);
            assert_eq!(
                found,
                Err(Code::CredentialAmbiguous),
                "{:?}",
                request.headers.first("authorization")
            );
        }
        assert_eq!(credential("public", request), Ok(None));
    }
}

#[test]
fn p08_a_raw_byte_is_no_token_and_no_panic() {
    let headers = Headers::from_pairs([("authorization", b"Bearer a\xff".as_slice())]);
    let request = Request { headers, ..get("/") };
    assert_eq!(credential("authenticated", &request), Err(Code::CredentialMalformed));
    let headers = Headers::from_pairs([("authorization", b"\xff\xfe,\xff".as_slice())]);
    let request = Request { headers, ..get("/") };
    assert_eq!(credential("authenticated", &request), Err(Code::CredentialMissing));
}

#[test]
fn a05_a_credential_is_not_in_debug_output() {
    let table = one(json!({"access": "authenticated"}));
    let request = with("Bearer marker");
    let matched = table.find(&request).unwrap();
    let shown = format!("{:?} {matched:?}", matched.credential());
    assert!(!shown.contains("marker"), "{shown}");
}

#[test]
fn the_demand_and_the_challenge_are_the_routes() {
    let table = one(json!({
        "access": "authenticated", "issuers": ["main"], "audiences": ["orders"],
        "scopes": ["read", "write"], "errors": "message",
    }));
    let request = get("/");
    let matched = table.find(&request).unwrap();
    let route = matched.route();
    assert_eq!(route.demand.issuers, ["main"].map(std::sync::Arc::<str>::from));
    assert_eq!(route.demand.audiences, ["orders"].map(Box::<str>::from));
    assert_eq!(route.demand.scopes, ["read", "write"].map(Box::<str>::from));
    assert_eq!(route.scope.as_deref(), Some("read write"));
    assert_eq!(&*route.realm, "one");
    assert_eq!(route.errors, crate::model::BodyForm::Message);
}
