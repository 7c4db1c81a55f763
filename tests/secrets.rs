//! What clients send in confidence, and text that no reader expects, through the whole binary.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::{Answer, Ask, Token, World, grpc};
use crate::kit::token::Signer;
use crate::shapes::setup;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const MARKER: &str = "m4rk3r";

/// A request with the marker wherever a secret may be.
fn confiding(method: &str, target: &str) -> Ask {
    Ask::new(method, target)
        .header("cookie", format!("session={MARKER}"))
        .header("x-api-key", MARKER)
        .header("dpop", MARKER)
        .header("content-type", "application/json")
        .body(format!("{{\"password\":\"{MARKER}\",\"refresh_token\":\"{MARKER}\"}}"))
}

/// Everything that Portcullis says by itself.
fn told(world: &World, answers: &[Answer]) -> [(&'static str, String); 4] {
    let refused = answers.iter().filter(|answer| answer.status != 200);
    let refused = refused.map(|answer| format!("{:?} {}", answer.headers, answer.text()));
    [
        ("log", world.portcullis.as_ref().unwrap().output()),
        ("audit", format!("{:?}", world.audited())),
        ("metrics", world.metrics()),
        ("answers", refused.collect()),
    ]
}

#[test]
fn a05_nothing_told_in_confidence_is_told_further_at_trace_level() {
    let to = "log: { level: trace, format: json }\naudit: { directory: audit }\nheaders:\n";
    let world = setup().portcullis("headers:\n", to).start();
    let (good, forged) = (Token::of("dam.operator"), Token::of("viewer").signer(Signer::Forger));
    let good = good.claim("secret", MARKER).sign();
    let forged = forged.claim("secret", MARKER).sign();
    let mut answers = Vec::new();
    let mut ask = |target: &str, credential: &str| {
        let target = format!("{target}{}", if target.contains('?') { "&" } else { "?" });
        let target = format!("{target}access_token={MARKER}&code={MARKER}");
        answers.push(world.ask(confiding("POST", &target).header("authorization", credential)));
    };
    // Each stage refuses once: route, authn, context, policy, respond; and an allow.
    ask("/elsewhere", &format!("Bearer {good}"));
    ask("/told/..", &format!("Bearer {good}"));
    ask(OWN, &format!("Bearer {MARKER}"));
    ask(OWN, &format!("Bearer {good},Bearer {MARKER}"));
    ask(OWN, &format!("Bearer {forged}"));
    ask(OWN, &format!("Basic {MARKER}"));
    for status in [500, 404, 401, 302] {
        world.backend.user_status.store(status, Ordering::SeqCst);
        let token = Token::of("viewer").claim("secret", MARKER).claim("n", status).sign();
        ask(OWN, &format!("Bearer {token}"));
    }
    world.backend.user_status.store(0, Ordering::SeqCst);
    for target in ["/told/failing", "/told/shape", "/told/injected", "/told/huge", OWN] {
        ask(target, &format!("Bearer {good}"));
    }
    let start = Instant::now();
    while world.audited().len() < answers.len() {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", world.audited());
        std::thread::sleep(Duration::from_millis(20));
    }
    let signature = good.rsplit('.').next().unwrap();
    for (place, text) in told(&world, &answers) {
        assert!(!text.is_empty(), "{place}");
        for secret in [MARKER, signature, "eyJ"] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} in {place}");
        }
    }
}

#[test]
fn o04_odd_text_anywhere_is_decided_and_the_process_goes_on() {
    let to = "log: { level: debug }\naudit: { directory: audit }\nheaders:\n";
    let world = setup().portcullis("headers:\n", to).start();
    let mut texts = vec!["🦀".to_owned(), "\u{2028}\u{feff}".to_owned()];
    texts.extend([63, 127, 199, 255].map(|n| format!("{}€", "a".repeat(n))));
    for text in &texts {
        // Subject and claims of a verified token; everything else as raw bytes from the client.
        let token = Token::of("dam.operator").claim("sub", text.as_str()).sign();
        let ask =
            Ask::get(OWN).bearer(&token).header("user-agent", text).header("x-request-id", text);
        let answer = world.ask(ask.header("x-odd", b"\x80\xff"));
        assert_eq!(answer.status, 200, "{text}: {answer:?}");
        let path = world.ask(Ask::get(&format!("/told/{text}")));
        assert_eq!(path.status, 400, "{text}: {path:?}");
        let method = format!("{}X", "M".repeat(text.len()));
        let odd = world.ask(Ask::new(&method, "/told/plain"));
        assert!(odd.status == 200 || odd.status >= 400, "{method}: {odd:?}");
    }
    let long = "h".repeat(70_000);
    for (name, value) in
        [("", b"x".as_slice()), (&long, b"x"), (":odd", b"\xff"), ("a\r\nb", b"\r\n")]
    {
        let answer = grpc::check(world.ports.check, &grpc::get("/told/plain", &[(name, value)]));
        assert!(answer.status.is_some(), "{answer:?}");
    }
    assert!(world.metric("portcullis_panics_total", &[]).abs() < 0.1, "{}", world.metrics());
    assert_eq!(world.ask(Ask::get("/told/plain")).status, 200, "it goes on");
}
