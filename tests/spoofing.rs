//! Headers that only Portcullis may set. The backend is the witness: whatever a client sends,
//! in whatever spelling, one header arrives and it is ours.

use crate::harness::{Answer, Ask, Setup, Token, World};

const MANAGED: &str = "x-cwms-auth-context";
const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// Every mix of hyphens and underscores, in lower and upper case.
fn spellings() -> Vec<String> {
    let names = (0..8).map(|bits: u8| {
        let separator = |bit: u8| if bits & bit == 0 { '-' } else { '_' };
        format!("x{}cwms{}auth{}context", separator(1), separator(2), separator(4))
    });
    // To a backend that makes variables of names, a dot is the same again.
    let dotted = ["x.cwms.auth.context", "x-cwms.auth-context", "x.cwms-auth_context"];
    let names = names.chain(dotted.map(str::to_owned));
    names.flat_map(|name| [name.to_ascii_uppercase(), name]).collect()
}

/// Sends the header in every spelling, each alone, then all of them at once, and twice.
fn each(ask: &Ask) -> Vec<(String, Ask)> {
    let spoof = |ask: Ask, name: &str| ask.header(name, "{\"spoofed\":true}");
    let mut asks: Vec<_> =
        spellings().into_iter().map(|name| (name.clone(), spoof(ask.clone(), &name))).collect();
    let all = spellings().iter().fold(ask.clone(), |ask, name| spoof(ask, name));
    asks.push(("all at once".to_owned(), all));
    asks.push(("twice".to_owned(), spoof(spoof(ask.clone(), MANAGED), MANAGED)));
    asks.push(("empty".to_owned(), ask.clone().header(MANAGED, "")));
    asks.push(("not UTF-8".to_owned(), ask.clone().header(MANAGED, b"\xff\xfe")));
    asks
}

fn ours(what: &str, answer: &Answer, id: &str) {
    assert_eq!(answer.status, 200, "{what}: {answer:?}");
    let seen = answer.seen(MANAGED);
    assert_eq!(seen.len(), 1, "{what}: {seen:?}");
    assert!(!answer.text().contains("spoofed"), "{what}: {answer:?}");
    let context: serde_json::Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!(context["user"]["id"], id, "{what}: {context}");
}

/// On the bare file every request reaches Portcullis; on a shipped one Envoy refuses underscores.
pub(crate) fn everywhere(world: &World, underscores: bool) {
    let token = Token::of("dam.operator").sign();
    let paths = [
        (Ask::get(OWN).bearer(&token), "DAM.OPERATOR"),
        (Ask::get("/cwms-data/offices"), "anonymous"),
        (Ask::get("/cwms-data/health"), "anonymous"),
    ];
    for (ask, id) in paths {
        for (what, ask) in each(&ask) {
            let answer = world.ask(ask);
            let refused = !underscores && (what.contains('_') || what == "all at once");
            if refused {
                assert_eq!(answer.status, 400, "{what}: {answer:?}");
            } else {
                ours(&what, &answer, id);
            }
        }
    }
    let before = world.backend.requests();
    for (what, ask) in each(&Ask::get("/cwms-data/timeseries?office=SWT").bearer(&token)) {
        let answer = world.ask(ask);
        assert!(answer.status == 403 || !underscores && answer.status == 400, "{what}: {answer:?}");
    }
    assert_eq!(world.backend.requests(), before, "a denied request went further");
}

#[test]
fn s7_1_the_shipped_file_and_portcullis_let_only_our_header_arrive() {
    everywhere(&Setup::quickstart().start(), false);
}

#[test]
fn s7_1_portcullis_alone_lets_only_our_header_arrive() {
    everywhere(&Setup::bare().start(), true);
}

#[test]
fn s1_6_headers_that_rewrite_a_request_do_not_arrive() {
    let world = Setup::bare().start();
    let names = [
        "forwarded",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x-forwarded-uri",
        "x-forwarded-method",
        "x-original-url",
        "x-rewrite-url",
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
    ];
    let ask = names.iter().fold(Ask::get("/cwms-data/offices"), |ask, name| {
        ask.header(name, "/cwms-data/timeseries")
    });
    let answer = world.ask(ask.header("x-else", "kept"));
    assert_eq!(answer.status, 200, "{answer:?}");
    for name in names {
        assert_eq!(answer.seen(name), [""; 0], "{name}");
    }
    assert_eq!(answer.seen("x-else"), ["kept"]);
}
