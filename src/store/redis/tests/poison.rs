//! Values that nobody of ours wrote.

use std::time::Duration;

use serde_json::json;

use super::server::Server;
use super::{LONG, Sut, config, url};
use crate::store::Store as _;

/// Commands of the one who poisons.
async fn raw(server: &Server, command: &::redis::Cmd) -> ::redis::Value {
    let client = ::redis::Client::open(url(server.port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}

#[tokio::test]
async fn n04_what_does_not_verify_is_a_miss_is_counted_and_can_be_written_again() {
    let server = Server::start(&[]);
    let sut = Sut::of(&server);
    sut.set("another", "another's value").await.unwrap();
    let theirs = raw(&server, ::redis::cmd("GET").arg("portcullis:another")).await;
    let ::redis::Value::BulkString(theirs) = theirs else { panic!("{theirs:?}") };
    let mut extended = theirs.clone();
    extended.push(b' ');
    let cut = theirs[..theirs.len() - 1].to_vec();
    let values: Vec<(&str, Vec<u8>)> = vec![
        ("null", b"null".to_vec()),
        ("an empty object", b"{}".to_vec()),
        ("an unknown version", br#"{"v":999}"#.to_vec()),
        ("cut JSON", br#"{"v":1,"iss"#.to_vec()),
        ("another key's value", theirs.clone()),
        ("a value and more", extended),
        ("a cut value", cut),
        ("binary", vec![0xff; 1000]),
        ("50 MiB", vec![b'x'; 50 << 20]),
    ];
    for (counted, (what, value)) in (1..).zip(values) {
        let mut set = ::redis::cmd("SET");
        raw(&server, set.arg("portcullis:key").arg(value)).await;
        assert_eq!(sut.get("key").await, Ok(None), "{what}");
        let line = format!("portcullis_store_values_rejected_total {counted}\n");
        assert!(sut.counts(&line), "{what}");
        sut.recovers("key", Duration::from_secs(5)).await;
    }
    // Of another type.
    let mut list = ::redis::cmd("DEL");
    raw(&server, list.arg("portcullis:key")).await;
    raw(&server, ::redis::cmd("LPUSH").arg("portcullis:key").arg("a")).await;
    assert_eq!(sut.get("key").await, Ok(None));
    assert!(sut.counts("portcullis_store_values_rejected_total 10\n"));
    sut.recovers("key", Duration::from_secs(5)).await;
    // Empty is what Redis says of what is not there.
    raw(&server, ::redis::cmd("SET").arg("portcullis:key").arg("")).await;
    assert_eq!(sut.get("key").await, Ok(None));
    assert_eq!(sut.state().last_error, None, "none of it is a failure of Redis");
}

#[tokio::test]
async fn s5_7_a_value_that_is_kept_past_its_end_is_over_all_the_same() {
    let server = Server::start(&[]);
    let sut = Sut::of(&server);
    sut.store.set("key", "value".into(), Duration::from_secs(1)).await.unwrap();
    raw(&server, ::redis::cmd("PERSIST").arg("portcullis:key")).await;
    assert!(sut.get("key").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(
        raw(&server, ::redis::cmd("TTL").arg("portcullis:key")).await,
        ::redis::Value::Int(-1)
    );
    assert_eq!(sut.get("key").await, Ok(None));
}

#[tokio::test]
async fn s5_7_replicas_with_another_key_do_not_believe_one_another() {
    let server = Server::start(&[]);
    let ours = Sut::of(&server);
    let key = "f".repeat(32);
    let theirs = Sut::new(&config(&json!({"url": url(server.port), "key": key})));
    ours.set("key", "value").await.unwrap();
    assert_eq!(theirs.get("key").await, Ok(None));
    let again = Sut::of(&server);
    assert_eq!(again.get("key").await, Ok(Some("value".to_owned())), "a replica that starts");
}

#[tokio::test]
async fn a_value_that_is_too_large_is_not_kept_and_replaces_the_old_one() {
    let server = Server::start(&[]);
    let sut = Sut::new(&config(&json!({"url": url(server.port), "max_value": "1KiB"})));
    sut.store.set("key", vec![b'x'; 1024].into(), LONG).await.unwrap();
    assert_eq!(sut.get("key").await.unwrap().unwrap().len(), 1024);
    assert!(sut.store.set("key", vec![b'x'; 1025].into(), LONG).await.is_err());
    assert_eq!(sut.get("key").await, Ok(None));
}
