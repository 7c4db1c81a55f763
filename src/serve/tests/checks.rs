//! One Check in each of its ways.

use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_allow_and_its_event() {
    let server = Server::start(Setup::default());
    let answer = server.client().await.check(get("/a?token=marker")).await.unwrap().into_inner();
    assert_eq!(code(&answer), 0);
    assert!(matches!(answer.http_response, Some(HttpResponse::OkResponse(_))));
    let events = server.events();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!((&event["outcome"], &event["reason"]), (&"allow".into(), &"public_route".into()));
    assert_eq!((&event["path"], &event["request_id"]), (&"/a".into(), &"req-1".into()));
    let metadata = answer.dynamic_metadata.unwrap().fields;
    let Some(kind) = &metadata["summary"].kind else { panic!("no id") };
    assert!(format!("{kind:?}").contains(event["check_id"].as_str().unwrap()));
    assert!(server.metrics.render().unwrap().contains(
        "portcullis_checks_total{outcome=\"allow\",reason=\"public_route\",route=\"r\"} 1"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn p09_absent_attributes_are_a_denial() {
    let server = Server::start(Setup::default());
    let mut client = server.client().await;
    let without_http = Some(Wire { http: None, time: None });
    let cases = [
        CheckRequest { attributes: None },
        CheckRequest { attributes: Some(AttributeContext::default()) },
        CheckRequest {
            attributes: Some(AttributeContext { request: without_http, ..Default::default() }),
        },
    ];
    for case in cases {
        let answer = client.check(case).await.unwrap().into_inner();
        assert_ne!(code(&answer), 0);
        assert_eq!(refusal(&answer), (400, "request_missing".to_owned()));
    }
    let events = server.events();
    assert!(events.iter().all(|event| event["reason"] == "request_missing"));
    assert_eq!(events.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_a_panic_denies_its_own_check_alone() {
    let server = Server::start(Setup::default());
    let client = server.client().await;
    let paths = ["/panic", "/a", "/panic-later", "/slow?50", "/a"];
    let answers = join_all(paths.map(|path| {
        let mut client = client.clone();
        async move { client.check(get(path)).await.unwrap().into_inner() }
    }));
    for (path, answer) in paths.iter().zip(answers.await) {
        if path.starts_with("/panic") {
            assert_eq!(refusal(&answer), (500, "internal_error".to_owned()));
            assert_ne!(code(&answer), 0);
        } else {
            assert_eq!(code(&answer), 0, "{path}");
        }
    }
    assert_eq!(server.metrics.panics.get(), 2);
    assert_eq!(server.events().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_odd_text_everywhere_is_decided_and_told_of() {
    let server = Server::start(Setup::default());
    let mut client = server.client().await;
    for fill in [63, 127, 199, 255, 2047] {
        let odd = format!("{}€\u{2028}\r\n\"", "a".repeat(fill));
        let answer = client
            .check(of(HttpRequest {
                id: odd.clone(),
                method: odd.clone(),
                path: format!("/{odd}"),
                host: odd.clone(),
                headers: [("user-agent".to_owned(), odd.clone())].into(),
                ..HttpRequest::default()
            }))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(code(&answer), 0);
    }
    let events = server.events();
    assert_eq!(events.len(), 5);
    for event in events {
        let path = event["path"].as_str().unwrap();
        assert!(event["altered"] == true || path.ends_with("€\u{2028}\r\n\""), "{event}");
        assert!(event.get("request_id").is_none());
    }
}

/// Sends bytes as the body of a Check call and gives back status and message.
async fn call(server: &Server, body: Vec<u8>) -> (String, CheckResponse) {
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = ::http::Request::post(format!(
        "http://{}/envoy.service.auth.v3.Authorization/Check",
        server.address()
    ))
    .header("content-type", "application/grpc")
    .body(Full::new(bytes::Bytes::from(body)))
    .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let collected = answer.into_body().collect().await.unwrap();
    let status = collected.trailers().unwrap()["grpc-status"].to_str().unwrap().to_owned();
    let bytes = collected.to_bytes();
    (status, prost::Message::decode(&bytes[5..]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_6_what_cannot_be_decoded_is_grpc_ok_with_a_denial() {
    let limits = Limits { max_check_size: crate::model::HumanSize(64 << 10), ..Limits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() });
    let large = vec![0, 0, 1, 0, 1];
    for (body, status, reason) in [
        (vec![0, 0, 0, 0, 1, 0xff], 400, "undecodable"),
        (Vec::new(), 400, "undecodable"),
        (vec![1, 0, 0, 0, 0], 400, "undecodable"),
        (large, 413, "too_large"),
    ] {
        let (grpc_status, answer) = call(&server, body).await;
        assert_eq!(grpc_status, "0");
        assert_ne!(code(&answer), 0);
        assert_eq!(refusal(&answer), (status, reason.to_owned()));
    }
    assert_eq!(server.events_when(4).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn p09_the_gates_own_denials_speak_grpc_to_grpc_callers() {
    let server = Server::start(Setup::default());
    let headers = [("content-type".to_owned(), "application/grpc".to_owned())].into();
    let http = HttpRequest { path: "/panic".to_owned(), headers, ..HttpRequest::default() };
    let answer = server.client().await.check(of(http)).await.unwrap().into_inner();
    assert_eq!(code(&answer), 13);
    let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!() };
    assert!(!denied.body.contains('<') && !denied.body.contains('{'), "{}", denied.body);
    let names: Vec<_> = denied.headers.iter().map(|h| h.header.clone().unwrap().key).collect();
    assert!(!names.contains(&"content-type".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_connection_has_its_checks_decided_on_one_thread() {
    let server = Server::start(Setup::default());
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(server.client().await);
    }
    for _ in 0..3 {
        for client in &mut clients {
            client.check(get("/thread")).await.unwrap();
        }
    }
    let events = server.events_when(12).await;
    let threads: Vec<_> = events.iter().map(|event| event["resource"].as_str().unwrap()).collect();
    let (first, rest) = threads.split_at(4);
    let count = |name: &str| first.iter().filter(|thread| **thread == name).count();
    assert_eq!((count("checks-0"), count("checks-1")), (2, 2), "{first:?}");
    assert_eq!(rest, [first, first].concat());
}
