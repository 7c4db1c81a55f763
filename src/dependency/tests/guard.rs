//! The guard: what a caller of a dependency that fails gets, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{client, counted, get, options};
use crate::dependency::stub::{Reply, Stub};
use crate::dependency::{Answer, BreakerConfig, CallError, Guard, GuardOptions, HttpOptions};
use crate::model::HumanDuration;
use crate::telemetry::Metrics;

const OPEN_FOR: Duration = Duration::from_millis(300);

fn quick() -> BreakerConfig {
    BreakerConfig { failures: 3, open_for: HumanDuration(OPEN_FOR), slow_after: None }
}

fn guard(timeout: Duration) -> (Arc<Guard>, Arc<Metrics>) {
    guard_with(timeout, quick())
}

fn guard_with(timeout: Duration, breaker: BreakerConfig) -> (Arc<Guard>, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    let options = GuardOptions {
        name: "test".into(),
        timeout,
        max_in_flight: 100,
        max_waiting: 100,
        breaker,
    };
    (Guard::new(&options, Arc::clone(&metrics)), metrics)
}

/// Calls that end as `result` after `after`, counted.
async fn call(
    guard: &Guard,
    safe: bool,
    calls: &AtomicUsize,
    after: Duration,
    result: Result<(), CallError>,
) -> Result<(), CallError> {
    let attempt = || async move {
        calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(after).await;
        result
    };
    guard.call(None, safe, |()| Answer::Useful, attempt).await
}

#[tokio::test]
async fn n01_an_open_breaker_answers_at_once_and_one_probe_finds_it_back() {
    let (guard, metrics) = guard(Duration::from_millis(200));
    let (calls, never) = (AtomicUsize::new(0), Duration::from_hours(1));
    for _ in 0..3 {
        assert_eq!(call(&guard, true, &calls, never, Ok(())).await, Err(CallError::Timeout));
    }
    let start = Instant::now();
    for _ in 0..1000 {
        assert_eq!(call(&guard, true, &calls, never, Ok(())).await, Err(CallError::Open));
    }
    // One by one, a thousand time-outs would take 200 s.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let text = metrics.render().unwrap();
    assert!(text.contains("dependency_breaker_state{dependency=\"test\"} 2"), "{text}");
    assert!(text.contains("outcome=\"open\"} 1000"), "{text}");

    tokio::time::sleep(OPEN_FOR).await;
    let healed = Duration::from_millis(50);
    let many = (0..50).map(|_| call(&guard, true, &calls, healed, Ok(())));
    let results = futures_util::future::join_all(many).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert_eq!(calls.load(Ordering::SeqCst), 4, "exactly one probe");
    assert_eq!(call(&guard, true, &calls, healed, Ok(())).await, Ok(()));
    assert!(metrics.render().unwrap().contains("breaker_state{dependency=\"test\"} 0"));
}

#[tokio::test]
async fn only_what_is_safe_is_tried_a_second_time_and_within_the_budget() {
    let patient = BreakerConfig { failures: 1000, ..quick() };
    let (guard, metrics) = guard_with(Duration::from_secs(5), patient);
    let (calls, now) = (AtomicUsize::new(0), Duration::ZERO);
    for (safe, error, made) in [
        (false, CallError::Broken, 1),
        (true, CallError::TooLarge, 1),
        (true, CallError::Broken, 2),
        (true, CallError::Unreachable, 2),
    ] {
        assert_eq!(call(&guard, safe, &calls, now, Err(error)).await, Err(error));
        assert_eq!(calls.swap(0, Ordering::SeqCst), made, "{safe} {error}");
    }
    for _ in 0..200 {
        let _ = call(&guard, true, &calls, now, Err(CallError::Broken)).await;
    }
    let retries = calls.load(Ordering::SeqCst) - 200;
    assert!((1..=80).contains(&retries), "{retries}");
    let line = format!("dependency_retries_total{{dependency=\"test\"}} {}", retries + 2);
    assert!(metrics.render().unwrap().contains(&line));
}

fn guard_is_open(metrics: &Metrics) -> bool {
    !metrics.render().unwrap().contains("breaker_state{dependency=\"test\"} 0")
}

#[tokio::test]
async fn a_deadline_that_comes_first_ends_the_call() {
    let (guard, _) = guard(Duration::from_hours(1));
    let deadline = Instant::now() + Duration::from_millis(20);
    let never = || std::future::pending::<Result<(), CallError>>();
    let result = guard.call(Some(deadline), false, |()| Answer::Useful, never).await;
    assert_eq!(result, Err(CallError::Timeout));
}

#[tokio::test]
async fn s3_6_statuses_about_one_user_move_no_breaker_and_server_errors_do() {
    let stub = Stub::start(|got| {
        let status = got.target.trim_start_matches('/').parse().unwrap();
        Reply::json(status, "{}")
    })
    .await;
    let (http, metrics) = client(&HttpOptions { breaker: quick(), ..options() });
    for status in [400, 401, 403, 404, 408, 409, 410, 413, 422, 429, 431] {
        for _ in 0..4 {
            let url = format!("{}/{status}", stub.origin);
            assert_eq!(get(&http, &url).await.unwrap().status, status);
        }
    }
    assert!(!guard_is_open(&metrics));
    for _ in 0..3 {
        assert_eq!(get(&http, &format!("{}/503", stub.origin)).await.unwrap().status, 503);
    }
    let calls = stub.calls();
    assert_eq!(get(&http, &format!("{}/200", stub.origin)).await.err(), Some(CallError::Open));
    assert!(counted(&metrics, "open"));
    assert_eq!(stub.calls(), calls);
    tokio::time::sleep(OPEN_FOR).await;
    assert_eq!(get(&http, &format!("{}/200", stub.origin)).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_broken_connection_is_replaced_by_a_second_try() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        drop(listener.accept().await.unwrap());
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(whole).await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
    });
    let (http, metrics) = client(&options());
    assert_eq!(get(&http, &url).await.unwrap().status, 200);
    assert!(counted(&metrics, "ok"), "one call, made twice");
}

#[tokio::test]
async fn s3_6_a_queue_of_callers_moves_no_breaker_and_takes_no_time_from_the_call() {
    let metrics = Arc::new(Metrics::new());
    let options = GuardOptions {
        name: "test".into(),
        timeout: Duration::from_secs(2),
        max_in_flight: 1,
        max_waiting: 100,
        breaker: BreakerConfig { slow_after: Some(HumanDuration::secs(2)), ..quick() },
    };
    let guard = Guard::new(&options, Arc::clone(&metrics));
    let calls = AtomicUsize::new(0);
    let many = (0..20).map(|_| call(&guard, true, &calls, Duration::from_millis(900), Ok(())));
    let results = futures_util::future::join_all(many).await;
    assert!(results.iter().all(|r| matches!(r, Ok(()) | Err(CallError::Shed))), "{results:?}");
    assert!(results.contains(&Err(CallError::Shed)), "{results:?}");
    assert!(!guard_is_open(&metrics));
}
