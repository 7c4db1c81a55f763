//! The driver against a small server: what it measures, and when it says that a figure is void.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::plan::Plan;

/// Answers 200 after a pause that depends on how many it answered.
async fn server(pause: fn(u64) -> Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answered = Arc::new(AtomicU64::new(0));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answered = Arc::clone(&answered);
            let service = service_fn(move |_| {
                let pause = pause(answered.fetch_add(1, Ordering::SeqCst));
                async move {
                    tokio::time::sleep(pause).await;
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn plan(target: SocketAddr, status: u16, more: &Value) -> Plan {
    let mut plan = json!({
        "target": target, "mode": "http", "connections": 2, "seconds": 1.0,
        "asks": [{ "name": "a", "path": "/", "expect": { "status": status } }],
    });
    let members = plan.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    serde_json::from_value(plan).unwrap()
}

async fn drive(plan: Plan) -> Value {
    super::drive(plan).await.unwrap()
}

fn void(told: &Value) -> String {
    told["void"].to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s10_1_one_wrong_answer_makes_a_figure_void() {
    let target = server(|_| Duration::ZERO).await;
    let told = drive(plan(target, 200, &json!({ "requests": 50 }))).await;
    assert_eq!((&told["answered"], &told["wrong"]), (&json!(50), &json!(0)), "{told}");
    assert_eq!(void(&told), "[]");
    let told = drive(plan(target, 403, &json!({ "requests": 50 }))).await;
    assert_eq!(told["wrong"], 50);
    assert!(void(&told).contains("50 of 50 answers were wrong"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_counts_for_every_request_that_it_held_up() {
    // The tenth answer takes 600 ms, in which 30 more were due.
    let target = server(|n| Duration::from_millis(if n == 10 { 600 } else { 0 })).await;
    let more = json!({ "rate": 50.0, "requests": 60, "seconds": 2.0, "connections": 1 });
    let told = drive(plan(target, 200, &more)).await;
    assert_eq!(told["answered"], 60, "{told}");
    // By answers alone one of 60 was slow; by the schedule about half were.
    let late = told["latency_us"]["p75"].as_u64().unwrap();
    assert!(late > 100_000, "the 75th percentile is {late} us");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_that_cannot_be_kept_is_void() {
    let target = server(|_| Duration::from_millis(50)).await;
    let told = drive(plan(target, 200, &json!({ "rate": 400.0, "connections": 1 }))).await;
    assert!(void(&told).contains("saturated"), "{told}");
}

#[test]
fn only_loopback_is_asked_and_only_within_bounds() {
    let target = "127.0.0.1:1".parse().unwrap();
    assert_eq!(plan(target, 200, &json!({})).check(), Ok(()));
    for (more, says) in [
        (json!({ "target": "192.0.2.1:80" }), "loopback"),
        (json!({ "seconds": 0.0 }), "seconds"),
        (json!({ "seconds": 1e9 }), "seconds"),
        (json!({ "connections": 0 }), "places"),
        (json!({ "streams": 2 }), "one stream"),
        (json!({ "rate": 1e9 }), "rate"),
        (json!({ "threads": 0 }), "threads"),
        (json!({ "asks": [] }), "nothing"),
    ] {
        let why = plan(target, 200, &more).check().expect_err(says);
        assert!(why.contains(says), "{more}: {why}");
    }
}
