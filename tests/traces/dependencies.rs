//! Calls to dependencies in the tree, and who is told of it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{CHECK, below, of, own, traced};
use crate::harness::jaeger::{Jaeger, Span};
use crate::harness::redis::Server;
use crate::harness::{Ask, Folder, Opa, Setup, Token, port, root, tokens};

#[test]
fn a_load_is_below_the_check_that_started_it_and_the_others_have_a_link() {
    let jaeger = Jaeger::start();
    let setup = Setup::of("envoy/tracing.yaml").unhurried();
    let tracing =
        format!("tracing: {{ endpoint: \"http://127.0.0.1:{}\", delay: 50ms }}\n", jaeger.grpc);
    let world = traced(setup.envoy("timeout: 0.5s", "timeout: 10s"), &jaeger, &tracing);
    world.backend.user_delay.store(1_500, Ordering::SeqCst);
    let (port, token) = (world.ports.envoy, Token::of("dam.operator").sign());
    let ask = |name: &'static str| {
        let ask = Ask::get(&own(name)).bearer(&token);
        std::thread::spawn(move || ask.send(port).status)
    };
    let first = ask("leads");
    while world.backend.user_calls() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let second = ask("waits");
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (200, 200));
    assert_eq!(world.backend.user_calls(), 1);
    let leads = of(&jaeger, "leads", ("portcullis", CHECK));
    let waits = of(&jaeger, "waits", ("portcullis", CHECK));
    let stage = leads.one("portcullis", "portcullis context");
    below(&leads, leads.one("portcullis", "GET user_api"), stage);
    assert!(!waits.has("portcullis", "GET user_api"));
    let waited = waits.one("portcullis", "portcullis context");
    assert_eq!(waited.links(), [stage.id.as_str()], "{:#}", waited.raw);
}

/// An issuer's keys over HTTP, as a stranger serves them; what it was asked.
fn issuer() -> (u16, Arc<Mutex<String>>) {
    let folder = Folder::new();
    tokens::write_keys(folder.path());
    let keys = std::fs::read_to_string(folder.path().join("jwks.json")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 8192];
            let read = stream.read(&mut request).unwrap_or(0);
            heard.lock().unwrap().push_str(&String::from_utf8_lossy(&request[..read]));
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{keys}",
                keys.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (port, asked)
}

/// A token that names a key that nobody has.
fn unknown_key() -> String {
    let token = Token::of("dam.operator").sign();
    let (_, rest) = token.split_once('.').unwrap();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","typ":"JWT","kid":"nobodys"}"#);
    format!("{header}.{rest}")
}

#[test]
fn every_dependency_has_a_client_span_and_a_stranger_is_not_told_the_trace() {
    let jaeger = Jaeger::start();
    let (redis, folder, (keys, asked)) = (Server::start(&[]), Folder::new(), issuer());
    let opa = Opa::start(port(), folder.path(), &[&root().join("policies/cwms")]);
    let more = format!(
        "tracing: {{ endpoint: \"http://127.0.0.1:{}\", protocol: http/protobuf, delay: 50ms }}\n\
         store: {{ redis: {{ url: \"redis://127.0.0.1:{}\", key: {}, timeout: 5s }} }}\n",
        jaeger.http,
        redis.port,
        "marker-".repeat(5)
    );
    let engine = format!(
        "engine: opa\n  opa: {{ url: \"http://127.0.0.1:{}\", timeout: 5s }}\n  paths: [",
        opa.port
    );
    let setup = Setup::of("envoy/tracing.yaml").unhurried();
    let setup = setup
        .envoy("timeout: 0.5s", "timeout: 10s")
        .portcullis("paths: [", &engine)
        .portcullis(
            "keys: { file: ../../target/quickstart/jwks.json }",
            &format!("keys: {{ jwks_uri: \"http://127.0.0.1:{keys}/jwks\" }} # ../../target/quickstart/jwks.json"),
        );
    let world = traced(setup, &jaeger, &more);
    let token = Token::of("dam.operator").sign();
    assert_eq!(world.ask(Ask::get(&own("all")).bearer(&token)).status, 200);
    let all = of(&jaeger, "name=all", ("portcullis", CHECK));
    for (name, stage) in [
        ("GETRANGE redis", "portcullis context"),
        ("GET user_api", "portcullis context"),
        ("SET redis", "portcullis context"),
        ("POST opa", "portcullis policy"),
    ] {
        // The record and its generation are two readings.
        let is = |span: &&Span| span.service == "portcullis" && span.name == name;
        let calls: Vec<_> = all.spans.iter().filter(is).collect();
        assert!(!calls.is_empty(), "{name}");
        for call in calls {
            below(&all, call, all.one("portcullis", stage));
            assert_eq!(call.tag("span.kind"), "client", "{name}");
        }
    }
    assert_eq!(all.one("portcullis", "SET redis").tag("db.system.name"), "redis");
    assert_eq!(all.one("portcullis", "POST opa").tag("http.response.status_code"), "200");

    assert_eq!(world.ask(Ask::get(&own("stranger")).bearer(&unknown_key())).status, 401);
    let stranger = of(&jaeger, "name=stranger", ("portcullis", CHECK));
    let call = stranger.one("portcullis", "GET jwks:playground");
    below(&stranger, call, stranger.one("portcullis", "portcullis authn"));
    let asked = asked.lock().unwrap().to_lowercase();
    assert!(asked.matches("get /jwks").count() >= 2, "{asked}");
    assert!(!asked.contains("traceparent"), "{asked}");
    assert!(!jaeger.traces("portcullis").iter().any(|t| t.raw.to_string().contains("marker")));
}
