//! The rules of the respond stage, through its public API.

use std::sync::Arc;

use serde_json::{Map, json};

use super::*;
use crate::clock::Clock;
use crate::model::{Evaluation, HeaderValue, Headers, HumanSize, Reason, Stamp, Strip, Verdict};
use crate::respond::Finisher;

fn config() -> HeadersConfig {
    let managed = ["x-user-id", "x-user-roles", "x-auth-context"];
    HeadersConfig { managed: managed.map(str::to_owned).to_vec(), max_value: HumanSize(512) }
}

fn finish(verdict: Verdict) -> Arc<Decision> {
    let evaluation = Evaluation {
        id: "d-1".into(),
        revision: "r".into(),
        decided_at: Clock::manual(0).now(),
        expires: None,
    };
    Arc::new(Finisher::new(&config()).finish(verdict, evaluation))
}

fn text(value: &str) -> HeaderValue {
    HeaderValue::Text(value.to_owned())
}

fn allow(headers: &[(&str, HeaderValue)]) -> Verdict {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Verdict { allow: true, headers: headers.collect(), ..Verdict::default() }
}

fn terms<'a>(realm: &'a Arc<str>, require_headers: &'a [Box<str>]) -> Terms<'a> {
    Terms {
        reads_credentials: true,
        credential_came: true,
        realm,
        scope: None,
        body: BodyForm::Oauth,
        require_headers,
    }
}

fn decide(decision: &Arc<Decision>, request: &Request, terms: Terms<'_>) -> Outcome {
    Responder::new(&config(), 1).decided(request, terms, decision, Strip::default())
}

fn denied(outcome: Outcome) -> Deny {
    match outcome {
        Outcome::Deny(deny) => deny,
        other => panic!("{other:?}"),
    }
}

#[test]
fn p07_every_managed_header_is_set_or_removed_and_none_is_both() {
    let realm = Arc::from("r");
    let headers = [("x-user-id", &b"u-admin"[..]), ("x_user_roles", b"admin"), ("x.user.id", b"a")];
    let request = Request { headers: Headers::from_pairs(headers), ..Request::default() };
    let decision = finish(allow(&[("x-user-id", text("u-alice"))]));
    let Outcome::Allow(allow) = decide(&decision, &request, terms(&realm, &[])) else { panic!() };
    let removed: Vec<_> = allow.removals().collect();
    for name in ["x-user-roles", "x_user_roles", "x_user_id", "x.user.id", "x-auth-context"] {
        assert!(removed.contains(&name), "{name} in {removed:?}");
    }
    assert!(!removed.contains(&"x-user-id"));
    assert_eq!(*allow.decision.unwrap().headers, [("x-user-id".into(), "u-alice".into())]);
}

#[test]
fn s7_1_an_undeclared_header_is_a_denial() {
    let decision = finish(allow(&[("x-other", text("1"))]));
    assert!(!decision.allow);
    assert_eq!(decision.reason, Code::HeaderNotDeclared.into());
    assert!(decision.headers.is_empty());
}

#[test]
fn r03_reserved_response_headers_are_refused() {
    for name in [":path", "host", "content-length", "x-envoy-original-path", "Upper", ""] {
        let response_headers = vec![(name.to_owned(), text("1"))];
        let verdict = Verdict { allow: true, response_headers, ..Verdict::default() };
        assert_eq!(finish(verdict).reason, Code::HeaderNotDeclared.into(), "{name}");
    }
}

#[test]
fn s7_2_an_allow_without_a_required_header_is_a_denial() {
    let realm = Arc::from("r");
    let required = ["x-auth-context".into()];
    let without = finish(allow(&[("x-user-id", text("a"))]));
    let deny = denied(decide(&without, &Request::default(), terms(&realm, &required)));
    assert_eq!(deny.reason, Code::RequiredHeaderMissing.into());
    let with = finish(allow(&[("x-auth-context", text("{}"))]));
    let outcome = decide(&with, &Request::default(), terms(&realm, &required));
    assert!(matches!(outcome, Outcome::Allow(_)));
    let responder = Responder::new(&config(), 1);
    let code = Code::PublicRoute;
    let public = terms(&realm, &required);
    let outcome = responder.allowed(&Request::default(), public, code, Strip::default());
    assert_eq!(denied(outcome).reason, Code::RequiredHeaderMissing.into());
}

#[test]
fn p11_s6_3_bad_values_are_denials_and_nothing_is_cut() {
    let list = |elements: &[&str]| HeaderValue::List(elements.iter().map(|&e| e.into()).collect());
    let document =
        HeaderValue::Document { document: json!({"a": "x".repeat(600)}), stamps: vec![] };
    let nowhere = HeaderValue::Document {
        document: json!({}),
        stamps: vec![("/a/b".to_owned(), Stamp::DecisionId)],
    };
    for (value, code) in [
        (text("Al\r\nx-user-roles: admin"), Code::HeaderValueInvalid),
        (list(&["a,b"]), Code::HeaderValueInvalid),
        (text(&"x".repeat(70 << 10)), Code::HeaderTooLarge),
        (document, Code::HeaderTooLarge),
        (nowhere, Code::DecisionShape),
    ] {
        assert_eq!(finish(allow(&[("x-auth-context", value)])).reason, code.into());
    }
}

#[test]
fn s6_3_response_header_lists_are_appended_one_by_one() {
    let cookies = HeaderValue::List(vec!["a=1".into(), "b=2, c".into(), "c=3".into()]);
    let response_headers = vec![("set-cookie".to_owned(), cookies)];
    let decision = finish(Verdict { allow: true, response_headers, ..Verdict::default() });
    let values: Vec<_> = decision.response_headers().iter().map(|(_, value)| &**value).collect();
    assert_eq!(values, ["a=1", "b=2, c", "c=3"]);
}

#[test]
fn s3_2_a_policys_denial_is_401_only_where_no_credential_came() {
    let realm = Arc::from("r");
    let decision = finish(Verdict { reason: Some("no".into()), ..Verdict::default() });
    let came = denied(decide(&decision, &Request::default(), terms(&realm, &[])));
    assert_eq!((came.status, came.challenge), (403, None));
    assert_eq!(came.reason, Reason::Policy("no".into()));
    let anonymous = Terms { credential_came: false, ..terms(&realm, &[]) };
    let none = denied(decide(&decision, &Request::default(), anonymous));
    assert_eq!(none.status, 401);
    assert_eq!(none.challenge.unwrap().error, None);
    let public = Terms { reads_credentials: false, credential_came: false, ..terms(&realm, &[]) };
    let public = denied(decide(&decision, &Request::default(), public));
    assert_eq!((public.status, public.challenge), (403, None));
    let own = finish(Verdict { status: Some(451), ..Verdict::default() });
    assert_eq!(denied(decide(&own, &Request::default(), anonymous)).status, 451);
}

#[test]
fn s3_5_a_reason_that_is_no_code_becomes_the_bounded_message() {
    let long = format!("Not yours!\n{}", "é".repeat(400));
    let decision = finish(Verdict { reason: Some(long), ..Verdict::default() });
    assert_eq!(decision.reason, Code::PolicyReason.into());
    let message = decision.message().unwrap();
    assert_eq!(message.chars().count(), 256);
    assert!(message.starts_with("Not yours! "));
    let allowed = finish(Verdict { allow: true, reason: Some("B C".into()), ..Verdict::default() });
    assert!(allowed.allow, "a reason never changes allow");
}

#[test]
fn s3_1_refusals_carry_their_status_and_rfc_6750_error() {
    let realm: Arc<str> = "r".into();
    let scope: Arc<str> = "read".into();
    let responder = Responder::new(&config(), 1);
    for (code, status, error) in [
        (Code::CredentialMissing, 401, Some(None)),
        (Code::TokenExpired, 401, Some(Some("invalid_token"))),
        (Code::CredentialAmbiguous, 400, Some(Some("invalid_request"))),
        (Code::InsufficientScope, 403, Some(Some("insufficient_scope"))),
        (Code::UnknownUser, 403, None),
        (Code::BodyInvalid, 400, None),
    ] {
        let terms = Terms { scope: Some(&scope), ..terms(&realm, &[]) };
        let deny = denied(responder.refused(code.into(), Some(terms)));
        let challenged = deny.challenge.as_ref().map(|challenge| challenge.error);
        assert_eq!((deny.status, challenged), (status, error), "{code:?}");
    }
    assert_eq!(denied(responder.refused(Code::NoRoute.into(), None)).status, 403);
}

#[test]
fn p09_every_core_code_ends_as_its_class_and_never_as_an_allow() {
    let responder = Responder::new(&config(), 3);
    for code in Code::ALL {
        match responder.refused((*code).into(), None) {
            Outcome::Allow(_) => panic!("{code:?}"),
            Outcome::Deny(deny) => {
                assert!((400..600).contains(&deny.status), "{code:?}");
                assert_ne!(code.class(), Class::Unavailable);
            }
            Outcome::Unavailable(unavailable) => {
                assert_eq!(code.class(), Class::Unavailable);
                assert_eq!(unavailable.retry_after, 3);
            }
        }
    }
    let verdict = Verdict { metadata: Map::new(), ..Verdict::default() };
    assert!(!finish(verdict).allow, "a verdict denies by default");
}
