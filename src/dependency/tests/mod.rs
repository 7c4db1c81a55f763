//! The client against real servers on loopback.

mod breaker;
mod guard;
mod tls;
mod urls;

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, header};
use ::url::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::stub::{Reply, Stub};
use super::*;
use crate::model::Secret;
use crate::telemetry::Metrics;

fn options() -> HttpOptions {
    HttpOptions {
        timeout: Duration::from_millis(400),
        max_response: 1000,
        tls: false,
        ..HttpOptions::new("test")
    }
}

fn client(options: &HttpOptions) -> (Http, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    (Http::new(options, Arc::clone(&metrics)).unwrap(), metrics)
}

async fn get(http: &Http, url: &str) -> Result<Response, CallError> {
    http.get(Url::parse(url).unwrap(), HeaderMap::new()).await
}

fn counted(metrics: &Metrics, outcome: &str) -> bool {
    let line =
        format!("portcullis_dependency_calls_total{{dependency=\"test\",outcome=\"{outcome}\"}} 1");
    metrics.render().unwrap().contains(&line)
}

#[tokio::test]
async fn an_answer_comes_with_what_its_headers_say() {
    let stub = Stub::start(|got| {
        assert_eq!(got.headers.get(header::AUTHORIZATION).unwrap(), "Bearer abc");
        assert!(!got.headers.contains_key(header::ACCEPT_ENCODING));
        Reply::json(200, "{}")
            .header("content-type", "Application/JSON; charset=utf-8")
            .header("cache-control", "public, Max-Age=60")
            .header("age", "20")
            .header("retry-after", "7")
    })
    .await;
    let (http, metrics) = client(&options());
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, bearer(&Secret::new("abc".to_owned())).unwrap());
    let url = Url::parse(&stub.origin).unwrap();
    let response = http.get(url, headers).await.unwrap();
    assert_eq!((response.status, &response.body[..]), (200, &b"{}"[..]));
    assert!(response.is_json());
    assert_eq!(response.fresh_for, Some(Duration::from_secs(40)));
    assert_eq!(response.retry_after, Some(7));
    assert!(counted(&metrics, "ok"));
}

#[tokio::test]
async fn t10_a_huge_max_age_does_not_overflow_and_dates_are_read() {
    let stub = Stub::start(|_| {
        Reply::json(200, "")
            .header("cache-control", "max-age=99999999999999999999")
            .header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
            .header("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")
    })
    .await;
    let (http, _) = client(&options());
    let response = get(&http, &stub.origin).await.unwrap();
    assert_eq!(response.fresh_for, Some(Duration::from_secs(u64::MAX)));
    assert_eq!(response.retry_after, Some(60));
}

#[tokio::test]
async fn s8_5_redirects_are_answers_and_are_not_followed() {
    let stub = Stub::start(|got| match got.target.as_str() {
        "/" => Reply::json(302, "").header("location", "/elsewhere"),
        _ => Reply::json(200, ""),
    })
    .await;
    let (http, metrics) = client(&options());
    assert_eq!(get(&http, &stub.origin).await.unwrap().status, 302);
    assert_eq!(stub.calls(), 1);
    assert!(counted(&metrics, "failed"));
}

#[tokio::test]
async fn s8_5_a_body_beyond_the_cap_is_refused_announced_or_not() {
    let stub = Stub::start(|_| Reply::json(200, vec![b'x'; 1001])).await;
    let (http, _) = client(&options());
    assert_eq!(get(&http, &stub.origin).await.err(), Some(CallError::TooLarge));

    let endless = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", endless.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = endless.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(&[b'x'; 100]).await.is_ok() {}
    });
    assert_eq!(get(&http, &url).await.err(), Some(CallError::TooLarge));
}

#[tokio::test]
async fn n01_a_server_that_is_silent_absent_or_breaks_off_is_told_apart() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (http, metrics) = client(&options());
    let url = format!("http://{}", silent.local_addr().unwrap());
    assert_eq!(get(&http, &url).await.err(), Some(CallError::Timeout));
    assert!(counted(&metrics, "timeout"));
    drop(silent);
    assert_eq!(get(&http, &url).await.err(), Some(CallError::NotListening));
    assert!(counted(&metrics, "unreachable"));

    let breaking = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", breaking.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = breaking.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
            stream.write_all(half).await.unwrap();
        }
    });
    assert_eq!(get(&http, &url).await.err(), Some(CallError::Broken));
}

#[tokio::test]
async fn n01_a_name_that_does_not_resolve_is_told_as_such() {
    let (http, _) = client(&options());
    // Longer than a label may be: no resolver is asked.
    let url = format!("http://{}.invalid/", "a".repeat(64));
    assert_eq!(get(&http, &url).await.err(), Some(CallError::NoName));
}

#[tokio::test]
async fn s8_5_more_calls_than_places_wait_and_more_than_that_are_shed() {
    let stub = Stub::start(|_| Reply::json(200, "").after(Duration::from_millis(100))).await;
    let (http, _) = client(&HttpOptions { max_in_flight: 1, max_waiting: 1, ..options() });
    let calls = (0..3).map(|_| get(&http, &stub.origin));
    let results = futures_util::future::join_all(calls).await;
    let shed = results.iter().filter(|r| matches!(r, Err(CallError::Shed))).count();
    assert_eq!((shed, stub.calls()), (1, 2));
    assert!(get(&http, &stub.origin).await.is_ok(), "a place is given back");
}

#[test]
fn a_credential_that_is_no_header_value_is_refused_and_never_shown() {
    assert!(bearer(&Secret::new("a\r\nx: y".to_owned())).is_err());
    let value = bearer(&Secret::new("marker".to_owned())).unwrap();
    assert!(!format!("{value:?}").contains("marker"));
}

#[test]
fn a_missing_or_empty_ca_file_is_an_error_with_its_name() {
    let file = std::env::temp_dir().join(format!("portcullis-ca-{}.pem", std::process::id()));
    let with = HttpOptions { tls: true, ca_file: Some(file.clone()), ..options() };
    let build = || Http::new(&with, Arc::new(Metrics::new())).unwrap_err().to_string();
    assert!(build().contains("portcullis-ca-"));
    std::fs::write(&file, "not a certificate").unwrap();
    assert!(build().contains("holds no PEM certificate"));
    std::fs::remove_file(&file).unwrap();
}
