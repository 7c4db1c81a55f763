//! Every answer: status set, no OK with a denial, headers that overwrite.

use std::collections::HashMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{CheckResponse, DeniedHttpResponse};
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::*;
use crate::audit::SubjectHash;
use crate::model::{Class, Code, DecisionId, Extras, Pairs, Reason, Record, Strip};
use crate::serve::config::{EnvoyVersion, Members};

fn facts() -> Facts {
    let record = Record {
        check_id: "check-1".into(),
        request_id: Some("req-1".into()),
        route: Some("api".into()),
        decision_cache: crate::model::CacheState::Hit,
        ..Record::default()
    };
    Facts { record, subject_hash: None::<SubjectHash>, altered: false }
}

fn pairs(list: &[(&str, &str)]) -> Pairs {
    list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn decision(headers: &[(&str, &str)], response: &[(&str, &str)]) -> Arc<Decision> {
    let mut metadata = Map::new();
    metadata.insert("tenant".to_owned(), json!({"name": "t", "tags": ["a", 1, true, null]}));
    metadata.insert("check_id".to_owned(), json!("forged"));
    metadata.insert("subject".to_owned(), json!("forged"));
    metadata.insert("summary".to_owned(), json!("check_id=forged"));
    Arc::new(Decision {
        id: "decision-1".into(),
        allow: true,
        reason: Code::Allowed.into(),
        status: None,
        headers: pairs(headers),
        extras: Extras { response_headers: pairs(response), metadata, ..Extras::default() }.kept(),
        revision: "rev".into(),
        expires: None,
    })
}

fn deny(status: u16, body: BodyForm) -> Deny {
    Deny {
        reason: Code::PolicyDenied.into(),
        status,
        challenge: None,
        body,
        description: "No <b>\"way\"</b>.".into(),
        decision: None,
    }
}

fn message(outcome: &Outcome) -> CheckResponse {
    match render(outcome, &facts(), Envoy::default()) {
        Answer::Check(frame) => CheckResponse::decode(&frame[5..]).unwrap(),
        Answer::Error => panic!("an error"),
    }
}

fn code(message: &CheckResponse) -> i32 {
    message.status.as_ref().expect("unset is an allow").code
}

fn denied(outcome: &Outcome) -> DeniedHttpResponse {
    match message(outcome).http_response.unwrap() {
        HttpResponse::DeniedResponse(inner) | HttpResponse::ErrorResponse(inner) => inner,
        HttpResponse::OkResponse(_) => panic!("an allow"),
    }
}

fn header<'m>(answer: &'m DeniedHttpResponse, name: &str) -> Option<&'m str> {
    let mut headers = answer.headers.iter().filter_map(|option| option.header.as_ref());
    headers.find(|header| header.key == name).map(|header| header.value.as_str())
}

#[test]
fn p09_every_code_and_form_gives_a_whole_answer() {
    for code in Code::ALL {
        let reason = Reason::from(*code);
        for body in [BodyForm::Oauth, BodyForm::Message, BodyForm::Html, BodyForm::Grpc] {
            let outcome = match code.class() {
                Class::Allow => continue,
                Class::Deny(status) => {
                    Outcome::Deny(Deny { reason: reason.clone(), ..deny(status, body) })
                }
                Class::Unavailable => Outcome::Unavailable(Unavailable {
                    reason: reason.clone(),
                    body,
                    retry_after: 3,
                }),
            };
            let answer = message(&outcome);
            assert_ne!(super::tests::code(&answer), 0, "{code:?}");
            let is_error = matches!(answer.http_response, Some(HttpResponse::ErrorResponse(_)));
            assert_eq!(is_error, code.class() == Class::Unavailable);
            let inner = denied(&outcome);
            let status = inner.status.as_ref().unwrap().code;
            assert!((400..=599).contains(&status), "{code:?} {status}");
            assert_eq!(header(&inner, "cache-control"), Some("no-store"));
            assert!(!inner.body.is_empty() && inner.body.len() < 4096);
        }
    }
}

#[test]
fn p09_a_status_outside_the_range_is_403() {
    for status in [0, 1, 200, 302, 399, 600, u16::MAX] {
        let answer = denied(&Outcome::Deny(deny(status, BodyForm::Oauth)));
        assert_eq!(answer.status.unwrap().code, 403, "{status}");
    }
}

#[test]
fn p09_grpc_callers_get_a_code_and_a_status_that_envoy_maps() {
    for (status, http, grpc) in [(401, 401, 16), (403, 403, 7), (400, 403, 7), (404, 403, 7)] {
        let outcome = Outcome::Deny(deny(status, BodyForm::Grpc));
        assert_eq!(denied(&outcome).status.unwrap().code, http);
        assert_eq!(code(&message(&outcome)), grpc);
    }
    let answer =
        Unavailable { reason: Code::KeysUnavailable.into(), body: BodyForm::Grpc, retry_after: 1 };
    assert_eq!(code(&message(&Outcome::Unavailable(answer))), 14);
}

#[test]
#[expect(deprecated, reason = "what old Envoys read")]
fn p07_set_headers_overwrite_and_response_headers_append() {
    let decision = decision(
        &[("x-user-id", "u-alice"), ("x-user-roles", "")],
        &[("set-cookie", "a=1"), ("set-cookie", "b=2"), ("set-cookie", "c=3")],
    );
    let allow = Allow {
        reason: Code::Allowed.into(),
        decision: Some(decision),
        remove: ["x-user_id", "X-User-Id", "x-user-name"].map(Into::into).to_vec(),
        strip: Strip { query: vec!["access_token".into()], ..Strip::default() },
        spellings: Arc::default(),
    };
    let answer = message(&Outcome::Allow(allow));
    assert_eq!(code(&answer), 0);
    let Some(HttpResponse::OkResponse(ok)) = answer.http_response else { panic!("no allow") };
    assert_eq!(ok.headers.len(), 2);
    for option in &ok.headers {
        assert_eq!(option.append.as_ref().map(|append| append.value), Some(false));
        assert_eq!(option.append_action(), HeaderAppendAction::OverwriteIfExistsOrAdd);
    }
    assert_eq!(ok.headers_to_remove, ["x-user_id", "x-user-name"], "never a name that is set");
    assert_eq!(ok.response_headers_to_add.len(), 3);
    for option in &ok.response_headers_to_add {
        assert_eq!(option.append, None);
        assert_eq!(option.append_action(), HeaderAppendAction::AppendIfExistsOrAdd);
    }
    assert_eq!(ok.query_parameters_to_remove, ["access_token"]);
    assert!(ok.dynamic_metadata.is_none(), "the deprecated field would override the other");
}

#[test]
fn the_metadata_names_the_check_and_a_policy_cannot_forge_it() {
    let allow = Allow {
        reason: Code::Allowed.into(),
        decision: Some(decision(&[], &[])),
        remove: Vec::new(),
        strip: Strip::default(),
        spellings: Arc::default(),
    };
    let outcome = Outcome::Allow(allow);
    let all = metadata::NAMES.into_iter().map(|(_, member)| member).collect();
    let fields = told(&outcome, all);
    let text = |name: &str| text_of(&fields, name);
    for (name, value) in [
        ("check_id", "check-1"),
        ("decision_id", &*DecisionId::from("decision-1")),
        ("reason", "allowed"),
        ("route", "api"),
        ("policy_revision", "rev"),
        ("decision_cache", "hit"),
        ("subject", ""),
    ] {
        assert_eq!(text(name), value, "{name}");
    }
    assert!(fields.contains_key("tenant") && !fields.contains_key("token_cache"));

    let none = told(&outcome, [].into_iter().collect());
    assert_eq!(none.keys().collect::<Vec<_>>(), ["tenant"], "not told, and not forged");
    let mut usual: Vec<_> = told(&outcome, Members::default()).into_keys().collect();
    usual.sort();
    assert_eq!(usual, ["summary", "tenant"]);
    let summary = text_of(&told(&outcome, Members::default()), "summary").to_owned();
    let decision = &*DecisionId::from("decision-1");
    assert_eq!(
        summary,
        format!(
            "check_id=check-1 decision_id={decision} reason=allowed route=api policy_revision=rev decision_cache=hit"
        )
    );
}

#[test]
fn a_refusal_says_why_and_by_which_decision_whatever_is_left_out() {
    let none = || [].into_iter().collect();
    let deny = Deny { decision: Some(decision(&[], &[])), ..deny(403, BodyForm::Oauth) };
    let mut refused: Vec<_> = told(&Outcome::Deny(deny), none()).into_keys().collect();
    refused.sort();
    assert_eq!(refused, ["check_id", "decision_id", "reason", "tenant"]);
}

#[test]
fn a_value_of_the_summary_cannot_be_taken_for_another_pair() {
    let mut facts = facts();
    facts.record.route = Some("a b=c\"\\\r\né".into());
    let decision = Arc::into_inner(decision(&[], &[])).unwrap();
    facts.record.decision =
        Some(Decision { revision: "r".repeat(1_000).into(), ..decision }.into());
    let frame = render(&Outcome::Deny(deny(403, BodyForm::Oauth)), &facts, Envoy::default());
    let Answer::Check(frame) = frame else { panic!("no answer") };
    let fields = CheckResponse::decode(&frame[5..]).unwrap().dynamic_metadata.unwrap().fields;
    let summary = text_of(&fields, "summary");
    assert!(summary.contains(" route=a_b=c______ "), "{summary}");
    assert!(summary.contains(&format!(" policy_revision={} ", "r".repeat(128))), "{summary}");
}

fn text_of<'a>(
    fields: &'a HashMap<String, envoy_types::pb::google::protobuf::Value>,
    name: &str,
) -> &'a str {
    match fields.get(name).and_then(|value| value.kind.as_ref()) {
        Some(envoy_types::pb::google::protobuf::value::Kind::StringValue(text)) => text,
        _ => "",
    }
}

fn told(
    outcome: &Outcome,
    metadata: Members,
) -> HashMap<String, envoy_types::pb::google::protobuf::Value> {
    let Answer::Check(frame) = render(outcome, &facts(), Envoy { metadata, ..Envoy::default() })
    else {
        panic!("no answer")
    };
    CheckResponse::decode(&frame[5..]).unwrap().dynamic_metadata.unwrap().fields
}

#[test]
fn a_challenge_follows_rfc_6750_and_its_values_cannot_leave_their_quotes() {
    let challenge = Challenge {
        realm: "a\"b\\c\r\nx: y é".into(),
        error: Some("invalid_token"),
        scope: Some("read write".into()),
    };
    let outcome = Outcome::Deny(Deny {
        challenge: Some(challenge),
        description: "The token has expired.".into(),
        ..deny(401, BodyForm::Oauth)
    });
    let answer = denied(&outcome);
    assert_eq!(
        header(&answer, "www-authenticate"),
        Some(
            "Bearer realm=\"a\\\"b\\\\c??x: y ?\", error=\"invalid_token\", \
             error_description=\"The token has expired.\", scope=\"read write\""
        )
    );
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let expected = json!({
        "error": "invalid_token", "error_description": "The token has expired.",
        "reason": "policy_denied", "request_id": "req-1",
    });
    assert_eq!(body, expected);
    let bare = Challenge { realm: "api".into(), error: None, scope: None };
    let outcome = Outcome::Deny(Deny { challenge: Some(bare), ..deny(401, BodyForm::Oauth) });
    let answer = denied(&outcome);
    assert_eq!(header(&answer, "www-authenticate"), Some("Bearer realm=\"api\""));
}

#[test]
fn s3_4_bodies_are_escaped_typed_and_bounded() {
    let page = denied(&Outcome::Deny(deny(403, BodyForm::Html)));
    assert!(page.body.contains("No &lt;b&gt;&quot;way&quot;&lt;/b&gt;."), "{}", page.body);
    assert_eq!(header(&page, "content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(header(&page, "x-content-type-options"), Some("nosniff"));
    let short = denied(&Outcome::Deny(deny(403, BodyForm::Message)));
    let body: Value = serde_json::from_str(&short.body).unwrap();
    assert_eq!(body, json!({"error": "Forbidden", "message": "No <b>\"way\"</b>."}));
    let long = Deny { description: "€".repeat(100_000).into(), ..deny(403, BodyForm::Html) };
    assert!(denied(&Outcome::Deny(long)).body.len() < 4096);
}

#[test]
fn a_policys_response_headers_reach_the_client_but_replace_none_of_ours() {
    let decision = decision(
        &[("x-user", "no")],
        &[("x-why", "a"), ("x-why", "b"), ("Cache-Control", "max-age=9")],
    );
    let answer =
        denied(&Outcome::Deny(Deny { decision: Some(decision), ..deny(403, BodyForm::Oauth) }));
    let keys: Vec<_> = answer.headers.iter().map(|h| h.header.clone().unwrap().key).collect();
    let expected = ["cache-control", "content-type", "x-content-type-options", "x-why", "x-why"];
    assert_eq!(keys, expected);
}

#[test]
fn s8_2_unavailable_is_503_with_retry_after_or_an_error() {
    let outcome = Outcome::Unavailable(Unavailable {
        reason: Code::UserApiUnavailable.into(),
        body: BodyForm::Oauth,
        retry_after: 7,
    });
    let answer = denied(&outcome);
    assert_eq!(answer.status.as_ref().unwrap().code, 503);
    assert_eq!(header(&answer, "retry-after"), Some("7"));
    assert!(matches!(
        render(
            &outcome,
            &facts(),
            Envoy { min_version: EnvoyVersion::new(36), ..Envoy::default() }
        ),
        Answer::Error
    ));
}

#[test]
fn s8_1_what_rests_on_stale_or_open_ground_is_marked_on_allow_and_deny_alike() {
    let marked = |state, outcome: &Outcome| {
        let mut facts = facts();
        facts.record.decision_cache = state;
        let answer = match render(outcome, &facts, Envoy::default()) {
            Answer::Check(frame) => CheckResponse::decode(&frame[5..]).unwrap(),
            Answer::Error => panic!("an error"),
        };
        let headers = match answer.http_response.unwrap() {
            HttpResponse::OkResponse(ok) => ok.response_headers_to_add,
            HttpResponse::DeniedResponse(denied) => denied.headers,
            HttpResponse::ErrorResponse(_) => panic!("an error"),
        };
        let all: Vec<_> = headers.into_iter().filter_map(|option| option.header).collect();
        let marks = all.iter().filter(|header| header.key == MARK);
        marks.map(|header| header.value.clone()).collect::<Vec<_>>()
    };
    // A policy cannot write the mark beside ours.
    let decision = decision(&[], &[(MARK, "forged")]);
    let allow = Outcome::Allow(Allow {
        reason: Code::Allowed.into(),
        decision: Some(decision),
        strip: Strip::default(),
        remove: Vec::new(),
        spellings: Arc::new([]),
    });
    let deny = Outcome::Deny(deny(403, BodyForm::Oauth));
    for outcome in [&allow, &deny] {
        assert_eq!(marked(crate::model::CacheState::Stale, outcome), ["stale"]);
        assert_eq!(marked(crate::model::CacheState::Open, outcome), ["open"]);
    }
    assert!(marked(crate::model::CacheState::Miss, &deny).is_empty());
}
