//! Shapes of requests and answers that the quickstart's story does not bring, through a real
//! Envoy where one can make them.

use envoy_types::pb::envoy::service::auth::v3::attribute_context::Peer;

use crate::harness::{Answer, Ask, Setup, Token, World, grpc, root};

/// Routes whose policy answers what the path asks for.
const ROUTES: &str = "routes:
- name: required
  match: { path: /required/plain }
  access: public
  policy: answers
  require_headers: [x-cwms-auth-context]
- name: message
  match: { path_prefix: /message }
  access: public
  policy: answers
  errors: message
- name: keeps
  match: { path_prefix: /keeps }
  access: public
  policy: answers
  keep_headers: [x-forwarded-host, x-method-override]
  credential_cookies: [session]
  forward_credentials: [authorization, cookie, access_token]
- name: drops
  match: { path_prefix: /drops }
  access: public
  policy: answers
  credential_cookies: [session]
- name: peer
  match: { path_prefix: /peer }
  access: public
  policy: answers
  attributes:
    peer: { peer: principal, use: vouches }
- name: told
  match: { path_prefix: /told }
  access: optional
  policy: answers
";

/// An Envoy that protects nothing by itself, and those routes.
pub(crate) fn setup() -> Setup {
    let policies =
        format!("paths: [../../policies/cwms, {}/tests/data/answers.rego]", root().display());
    let entries = "entry_points:\n  - { name: answers, rule: data.answers.decision }\n";
    Setup::bare()
        .portcullis("paths: [../../policies/cwms]", &policies)
        .portcullis("entry_points:\n", entries)
        .portcullis("routes:\n", ROUTES)
}

fn world() -> World {
    setup().start()
}

fn cookies(answer: &Answer) -> Vec<&str> {
    answer
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie")
        .map(|(_, v)| v.as_str())
        .collect()
}

#[test]
fn p07_three_cookies_survive_on_an_allow_and_on_a_denial() {
    let world = world();
    let expected = ["a=1; Path=/", "b=2; HttpOnly", "c=3"];
    let answer = world.ask(Ask::get("/told/cookies"));
    assert_eq!((answer.status, cookies(&answer)), (200, expected.to_vec()), "{answer:?}");
    let answer = world.ask(Ask::get("/told/denied-cookies").bearer(&Token::of("viewer").sign()));
    assert_eq!((answer.status, cookies(&answer)), (403, expected.to_vec()), "{answer:?}");
    assert_eq!(answer.reason(), "told_so");
}

#[test]
fn every_stages_refusal_reaches_the_client_with_its_reason() {
    let world = world();
    let token = Token::of("viewer").sign();
    for (target, status, reason) in [
        // route
        ("/elsewhere", 403, "no_route"),
        ("/told/./plain", 400, "path_not_canonical"),
        ("/cwms-data/timeseries?office=SPK&office=SWT", 400, "ambiguous_parameter"),
        // policy
        ("/told/nothing", 403, "policy_denied"),
        ("/told/teapot", 418, "teapot"),
        ("/told/success", 403, "decision_shape"),
        ("/told/shape", 403, "decision_shape"),
        ("/told/prose", 403, "policy_reason"),
        ("/told/unheard-of", 403, "policy_undefined"),
        ("/told/failing", 403, "policy_error"),
        // respond
        ("/told/undeclared", 403, "header_not_declared"),
        ("/told/injected", 403, "header_value_invalid"),
        ("/told/huge", 403, "header_too_large"),
        ("/required/plain", 403, "required_header_missing"),
    ] {
        let answer = world.ask(Ask::get(target).bearer(&token));
        assert_eq!(
            (answer.status, answer.reason()),
            (status, reason.to_owned()),
            "{target}: {answer:?}"
        );
        assert_eq!(answer.header("cache-control"), "no-store", "{target}");
    }
    // authn and context: `story` and `answers`; here what a client does with the header.
    for (header, status, reason) in [
        (format!("Bearer {token}, Bearer {token}"), 400, "credential_ambiguous"),
        ("Bearer".to_owned(), 401, "credential_malformed"),
        ("Bearer a.b".to_owned(), 401, "token_malformed"),
        (format!("Bearer {}", "a".repeat(20_000)), 401, "token_too_large"),
    ] {
        let answer = world.ask(Ask::get("/told/plain").header("authorization", header));
        assert_eq!((answer.status, answer.reason()), (status, reason.to_owned()), "{answer:?}");
    }
    assert_eq!(world.backend.requests(), 0);
    let [ok, denied, error] = world.counts();
    assert_eq!((ok, denied, error), (0, 18, 0), "what a caller alone can cause is a denial");
}

#[test]
fn s3_4_bodies_are_negotiated_through_envoy() {
    let world = world();
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let answer = world.ask(Ask::get("/told/prose").header("accept", browser));
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.header("content-type").starts_with("text/html"), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("cache-control"), "no-store");
    let page = answer.text();
    assert!(page.contains("<html") && !page.contains("<b>today"), "{page}");

    let answer = world.ask(Ask::get("/message/prose"));
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    let body = answer.json();
    assert_eq!(body["message"], "Not <b>today</b>", "{body}");
    let members: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(members, ["error", "message"], "{body}");
    assert_eq!(world.ask(Ask::get("/told/prose?a=<script>")).text().matches("<script").count(), 0);
}

#[test]
fn s1_6_s3_3_a_route_keeps_and_forwards_what_it_names() {
    let world = world();
    let ask = |path: &str| {
        let ask = Ask::get(path)
            .header("authorization", "Basic eDp5")
            .header("cookie", "session=1; other=2")
            .header("x-method-override", "DELETE")
            .header("x-forwarded-uri", "/admin");
        world.ask(ask)
    };
    let kept = ask("/keeps/plain?access_token=abc&x=1");
    assert_eq!(kept.status, 200, "{kept:?}");
    assert_eq!(kept.seen("authorization"), ["Basic eDp5"]);
    assert_eq!(kept.seen("cookie"), ["session=1; other=2"]);
    assert_eq!(kept.seen("x-method-override"), ["DELETE"]);
    assert_eq!(kept.seen("x-forwarded-uri"), [""; 0], "not named");
    assert_eq!(kept.json()["target"], "/keeps/plain?access_token=abc&x=1");

    let dropped = ask("/drops/plain?access_token=abc&x=1");
    assert_eq!(dropped.status, 200, "{dropped:?}");
    for name in ["authorization", "cookie", "x-method-override", "x-forwarded-uri"] {
        assert_eq!(dropped.seen(name), [""; 0], "{name}");
    }
    assert_eq!(dropped.json()["target"], "/drops/plain?x=1");
    // A cookie that is no credential is the backend's own affair.
    let other = world.ask(Ask::get("/drops/plain").header("cookie", "other=2"));
    assert_eq!(other.seen("cookie"), ["other=2"]);
}

#[test]
fn p08_a_check_that_carries_only_raw_headers_is_read_like_any_other() {
    let telling = "envoy: { metadata: [reason] }\nuser_context:\n";
    let world = setup().portcullis("user_context:\n", telling).start();
    let check = |headers: &[(&str, &[u8])]| {
        let target = "/cwms-data/timeseries?office=SPK&name=Elev";
        let answer = grpc::check(world.ports.check, &grpc::get(target, headers));
        (grpc::status(&answer), grpc::metadata(&answer, "reason"))
    };
    let good = format!("Bearer {}", Token::of("dam.operator").sign());
    let good = good.as_bytes();
    let own = |status, reason: &str| (status, reason.to_owned());
    assert_eq!(check(&[("authorization", good)]), own(200, "dam_operator"));
    assert_eq!(check(&[]), own(401, "sign_in_required"));
    let twice = check(&[("authorization", good), ("authorization", good)]);
    assert_eq!(twice, own(400, "credential_ambiguous"));
    let raw = [b"Bearer ".as_slice(), b"\xff\xfe"].concat();
    assert_eq!(check(&[("authorization", &raw)]), own(401, "credential_malformed"));
    let odd = check(&[("authorization", good), ("x-odd", b"\xff\x00"), ("", b"")]);
    assert_eq!(odd, own(200, "dam_operator"));
    // The path that Envoy could not put into text is the one in the raw header.
    let path = check(&[("authorization", good), (":path", b"/cwms-data/\xff")]);
    assert_eq!(path, own(400, "path_not_canonical"));
}

#[test]
fn s2_1_the_clients_certificate_vouches_and_no_header_does() {
    let world = world();
    let check = |principal: &str| {
        let mut request = grpc::get("/peer/peer", &[("x-peer", b"spiffe://example.test/forged")]);
        let attributes = request.attributes.as_mut().unwrap();
        attributes.source = Some(Peer {
            principal: principal.to_owned(),
            certificate: "-----BEGIN%20CERTIFICATE-----".to_owned(),
            ..Peer::default()
        });
        grpc::check(world.ports.check, &request)
    };
    let known = check("spiffe://example.test/collector");
    assert_eq!(grpc::status(&known), 200, "{known:?}");
    assert!(format!("{known:?}").contains("spiffe://example.test/collector"), "{known:?}");
    let unknown = check("");
    assert_eq!(grpc::status(&unknown), 403, "{unknown:?}");
    assert_eq!(grpc::metadata(&unknown, "reason"), "policy_undefined");
    assert_eq!(world.ask(Ask::get("/peer/peer").header("x-peer", "forged")).status, 403);
}
