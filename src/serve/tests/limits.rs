//! Deadlines, shedding, cancelled calls and connections that bring nothing.

use std::time::Duration;

use futures_util::future::join_all;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn s3_6_the_deadline_is_unavailable_and_ours() {
    let budget =
        CheckBudget { budget: HumanDuration::millis(100), reserve: HumanDuration::millis(20) };
    let server = Server::start(Setup { budget, ..Setup::default() });
    let mut client = server.client().await;
    let start = Instant::now();
    let answer = client.check(get("/slow?3000")).await.unwrap().into_inner();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(refusal(&answer), (503, "deadline_exceeded".to_owned()));
    assert!(matches!(answer.http_response, Some(HttpResponse::ErrorResponse(_))));
    let event = &server.events()[0];
    assert_eq!(event["reason"], "deadline_exceeded");
    assert_eq!(event["resource"], "learned", "what was learned before is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_own_timeout_goes_before_the_budget() {
    let server = Server::start(Setup::default());
    let mut request = tonic::Request::new(get("/slow?3000"));
    request.set_timeout(Duration::from_millis(400));
    let answer = server.client().await.check(request).await.unwrap().into_inner();
    assert_eq!(refusal(&answer).1, "deadline_exceeded", "answered within the caller's time");
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_2_unavailable_is_a_grpc_error_to_envoy_1_36() {
    let budget = CheckBudget { budget: HumanDuration::millis(50), ..CheckBudget::default() };
    let envoy =
        Envoy { min_version: super::super::config::EnvoyVersion::new(36), ..Envoy::default() };
    let server = Server::start(Setup { budget, envoy, ..Setup::default() });
    let error = server.client().await.check(get("/slow?3000")).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable);
    assert_eq!(server.events()[0]["reason"], "deadline_exceeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_in_flight_are_shed_as_unavailable() {
    let limits = Limits { max_in_flight: 4, ..Limits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() });
    let client = server.client().await;
    let answers = join_all((0..12).map(|_| {
        let mut client = client.clone();
        async move { client.check(get("/slow?300")).await.unwrap().into_inner() }
    }))
    .await;
    let shed = answers.iter().filter(|a| code(a) != 0 && refusal(a).1 == "overloaded").count();
    assert_eq!((shed, server.metrics.shed.get()), (8, 8));
    assert_eq!(server.metrics.in_flight.get(), 0);
    let events = server.events();
    assert_eq!(events.iter().filter(|event| event["reason"] == "overloaded").count(), 8);
    assert_eq!(events.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_4_a_burst_of_cancelled_calls_does_no_harm_and_each_is_audited() {
    let server = Server::start(Setup::default());
    let client = server.client().await;
    let calls: Vec<_> = (0..300)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.check(get("/slow?4000")).await })
        })
        .collect();
    while server.metrics.in_flight.get() < 300 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    let events = server.events_when(300).await;
    assert_eq!(events.len(), 300);
    assert!(events.iter().all(|event| event["reason"] == "cancelled"));
    assert!(events.iter().all(|event| event["resource"] == "learned"));
    // The same connection still serves.
    let answer = client.clone().check(get("/a")).await.unwrap().into_inner();
    assert_eq!(code(&answer), 0);
    assert_eq!(server.metrics.in_flight.get(), 0);
    assert_eq!(server.metrics.connections("check").get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_6_a_connection_that_brings_no_request_is_closed() {
    let limits = Limits { handshake_timeout: HumanDuration::millis(200), ..Limits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() });
    for opening in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(opening).await.unwrap();
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(3), stream.read_to_end(&mut rest));
        assert!(end.await.is_ok(), "still open after {opening:?}");
    }
    // One that brought a request stays.
    let mut client = server.client().await;
    client.check(get("/a")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(server.metrics.connections("check").get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_are_closed_and_counted() {
    let limits = Limits { max_connections: 2, ..Limits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() });
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(tokio::net::TcpStream::connect(server.address()).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let read = tokio::time::timeout(Duration::from_secs(2), open[2].read_u8()).await;
    assert!(read.unwrap().is_err(), "the third is closed at once");
    let text = server.metrics.render().unwrap();
    assert!(text.contains("portcullis_accept_errors_total{door=\"check\"} 1"), "{text}");
    assert_eq!(server.metrics.connections("check").get(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_is_asked_to_end_and_no_check_is_lost() {
    let limits = Limits { max_connection_age: HumanDuration::millis(300), ..Limits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() });
    let (address, opened) = (server.address(), Arc::new(Mutex::new(0)));
    let count = opened.clone();
    let connector = tower::service_fn(move |_: ::http::Uri| {
        *count.lock().unwrap() += 1;
        let address = address.clone();
        async move { tokio::net::TcpStream::connect(address).await.map(TokioIo::new) }
    });
    let channel = Peer::from_static("http://x").connect_with_connector(connector).await.unwrap();
    let mut client = AuthorizationClient::new(channel);
    let (start, mut answered) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(1200) {
        // A call that the client had not sent when its connection ended is the client's to
        // repeat; the server never saw it.
        let Ok(answer) = client.check(get("/slow?40")).await else { continue };
        assert_eq!(code(&answer.into_inner()), 0);
        answered += 1;
    }
    assert!((3..=6).contains(&*opened.lock().unwrap()), "{opened:?}");
    let events = server.events();
    assert!(events.iter().all(|event| event["outcome"] == "allow"), "none was cut");
    assert_eq!(events.len(), answered);
}
