//! Bodies and bytes: whole, cut, broken, not UTF-8.

use crate::harness::{Answer, Ask, Setup, Token, World};

/// A route whose office comes from the body, before all others.
const NOTES: &str = "routes:
- name: notes
  match: { path: /cwms-data/notes, methods: [POST] }
  access: authenticated
  policy: cwms
  resource: timeseries
  action: create
  body: required
  attributes:
    office_id: { body: /office, use: selects }
  require_headers: [x-cwms-auth-context]
";

fn world() -> World {
    Setup::bare().portcullis("routes:\n", NOTES).start()
}

fn post(world: &World, body: &[u8]) -> Answer {
    let ask = Ask::new("POST", "/cwms-data/notes").header("content-type", "application/json");
    world.ask(ask.bearer(&Token::of("water.manager").sign()).body(body))
}

#[test]
fn s1_4_a_whole_body_decides_and_arrives_unchanged() {
    let world = world();
    let body = br#"{"office":"SWT","text":"caf\u00e9"}"#;
    let answer = post(&world, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["body_size"], body.len());
    let answer = post(&world, br#"{"office":"SPK"}"#);
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[test]
fn s1_4_a_body_that_two_readers_read_differently_is_refused() {
    let world = world();
    for body in [
        br#"{"office":"SWT","office":"SPK"}"#.as_slice(),
        br#"{"office":"SWT","a":{"b":1,"b":2}}"#,
        br#"{"office":"SWT""#,
        b"{\"office\":\"SWT\",\"x\":\"\xff\xfe\"}",
        b"",
    ] {
        let answer = post(&world, body);
        let text = String::from_utf8_lossy(body);
        assert_eq!(
            (answer.status, answer.reason()),
            (400, "body_invalid".into()),
            "{text}: {answer:?}"
        );
    }
    assert_eq!(world.backend.requests(), 0);
    assert_eq!(world.counts(), [0, 5, 0], "what a caller alone can cause is a denial");
}

#[test]
fn s1_4_a_cut_body_is_never_read_as_a_whole_one() {
    let world = world();
    // The part that Envoy buffers would be enough to read the office.
    let body = format!(r#"{{"office":"SWT","text":"{}"}}"#, "a".repeat(100_000));
    let answer = post(&world, body.as_bytes());
    assert_eq!((answer.status, answer.reason()), (400, "body_invalid".into()), "{answer:?}");
}

#[test]
fn bytes_that_are_not_utf8_pass_where_nothing_reads_them() {
    let world = world();
    let token = Token::of("water.manager").sign();
    let target = "/cwms-data/timeseries?office=SWT";
    let body = [b"\x00\xff\xfe".as_slice(), &b"a".repeat(100_000)].concat();
    let ask = Ask::new("POST", target).bearer(&token).header("x-odd", b"\xff\xc3\x28");
    let answer = world.ask(ask.body(body.clone()));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.seen("x-odd"), [r"\xff\xc3("]);
    assert_eq!(answer.json()["body_size"], body.len());
    assert!(answer.json()["body"].as_str().unwrap().starts_with(r"\x00\xff\xfe"), "{answer:?}");
    assert_eq!(world.counts(), [1, 0, 0]);
}
