//! What a running process says of itself, and that no text of a client breaks a line of it.

use serde_json::Value;

use crate::harness::{Ask, Process, Setup, Token, grpc};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// What some reader takes for the end of a line, or a terminal for an order.
const HOSTILE: &str =
    "x\r\n{\"level\":\"ERROR\",\"message\":\"forged\"}\u{1b}[2J\u{2028}\u{85}\u{202e}\0y";

/// The log's lines; audit's share the file.
fn lines(process: &Process) -> Vec<Value> {
    let text = process.output();
    // The last one may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let parse = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    };
    whole.split('\n').map(parse).filter(|line| line.get("level").is_some()).collect()
}

fn said(lines: &[Value], message: &str) -> usize {
    lines.iter().filter(|line| line["message"] == message).count()
}

#[test]
fn one_line_says_what_listens_where_and_none_is_written_per_request() {
    let mut world = Setup::quickstart().unhurried().start();
    let token = Token::of("dam.operator").sign();
    for _ in 0..20 {
        assert_eq!(world.ask(Ask::get(OWN).bearer(&token)).status, 200);
        assert_eq!(world.ask(Ask::get("/elsewhere")).status, 403);
        assert_eq!(world.ask(Ask::get(OWN).bearer("a.b.c")).status, 401);
    }
    let before = lines(world.portcullis.as_ref().unwrap());
    let start: Vec<_> = before.iter().filter(|line| line["message"] == "listening").collect();
    let [start] = start.as_slice() else { panic!("{before:#?}") };
    assert_eq!(start["check"], format!("127.0.0.1:{}", world.ports.check));
    assert_eq!(start["admin"], format!("127.0.0.1:{}", world.ports.admin));
    let revision = start["policies"].as_str().unwrap();
    assert!(world.metrics().contains(&format!("revision=\"{revision}\"")), "{start}");
    assert_eq!(said(&before, "ready"), 1, "{before:#?}");
    assert!(before.len() < 6, "{before:#?}");

    // One line when the user API is given up, and one when it is back.
    world.backend.user_status.store(500, std::sync::atomic::Ordering::SeqCst);
    // It is tried again, in vain, more than once.
    let begun = std::time::Instant::now();
    for n in 0.. {
        // Each another user: what one brings about counts once.
        let token = Token::of(&format!("viewer.{n}")).sign();
        assert_eq!(world.ask(Ask::get(OWN).bearer(&token)).status, 503);
        if begun.elapsed() > std::time::Duration::from_secs(4) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let during = lines(world.portcullis.as_ref().unwrap());
    assert_eq!(said(&during, "no longer called: it fails"), 1, "{during:#?}");
    world.backend.user_status.store(0, std::sync::atomic::Ordering::SeqCst);
    let start = std::time::Instant::now();
    while world.ask(Ask::get(OWN).bearer(&Token::of("viewer").sign())).status == 503 {
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "it never comes back");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let after = lines(world.portcullis.as_ref().unwrap());
    assert_eq!(said(&after, "called again: it is back"), 1, "{after:#?}");
    assert_eq!(after.len(), before.len() + 2, "{after:#?}");
    world.end_portcullis();
}

#[test]
fn no_text_of_a_client_breaks_or_forges_a_line() {
    for format in ["json", "text"] {
        let to = format!(
            "log: {{ level: trace, format: {format} }}\naudit: {{ directory: audit }}\nheaders:\n"
        );
        let world = Setup::quickstart().unhurried().portcullis("headers:\n", &to).start();
        let port = world.ports.check;
        let good = Token::of(HOSTILE).claim("iss2", HOSTILE).sign();
        for bearer in [HOSTILE.to_owned(), good] {
            let bearer = format!("Bearer {bearer}");
            let mut request = grpc::get(
                OWN,
                &[
                    ("authorization", bearer.as_bytes()),
                    ("x-request-id", HOSTILE.as_bytes()),
                    ("traceparent", HOSTILE.as_bytes()),
                    (HOSTILE, HOSTILE.as_bytes()),
                ],
            );
            grpc::check(port, &request);
            let http = request.attributes.as_mut().unwrap().request.as_mut().unwrap().http.as_mut();
            let http = http.unwrap();
            for field in [&mut http.id, &mut http.method, &mut http.host, &mut http.scheme] {
                HOSTILE.clone_into(field);
            }
            grpc::check(port, &request);
            let http = request.attributes.as_mut().unwrap().request.as_mut().unwrap().http.as_mut();
            format!("/cwms-data/{HOSTILE}?office={HOSTILE}").clone_into(&mut http.unwrap().path);
            grpc::check(port, &request);
        }
        world.ask(Ask::get(OWN).bearer(&Token::of("viewer").sign()));
        let process = world.portcullis.as_ref().unwrap();
        let text = process.output();
        assert!(text.lines().count() > 10, "{text}");
        let odd = |c: char| (c.is_control() && c != '\n') || ('\u{2028}'..='\u{202e}').contains(&c);
        assert!(!text.contains(odd), "{:?}", text.split('\n').find(|line| line.contains(odd)));
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            assert!(!line.starts_with("{\"level\":\"ERROR\""), "{line}");
            // Every line begins as ours do.
            let ours = if format == "json" { "{\"timestamp\":\"2" } else { "2" };
            assert!(line.starts_with(ours), "{line:?}");
        }
        if format == "json" {
            assert!(lines(process).len() > 10);
        }
    }
}

#[test]
fn a_line_for_a_traced_check_has_its_trace_id() {
    let to = "log: { level: debug, format: json }\naudit: { directory: audit }\n\
              tracing: { endpoint: \"http://127.0.0.1:1\", trust_client: true }\nheaders:\n";
    let world = Setup::quickstart().unhurried().portcullis("headers:\n", to).start();
    let id = "0af7651916cd43dd8448eb211c80319c";
    let token = Token::of("dam.operator").sign();
    let traced = Ask::get(OWN).header("traceparent", format!("00-{id}-b7ad6b7169203331-00"));
    assert_eq!(world.ask(traced.bearer(&token)).status, 200);
    let lines = lines(world.portcullis.as_ref().unwrap());
    // The connection to the user API is made for this Check.
    let found = lines.iter().filter(|line| line["trace_id"] == id).count();
    assert!(found > 0, "{lines:#?}");
}
