//! What every [`Store`] must do, run against each adapter.

use std::time::Duration;

use bytes::Bytes;

use super::Store;
use crate::model::BoxFuture;

/// Runs the suite on `store`, which must be empty; `pass` lets time go by for it.
pub(super) async fn holds(
    store: &dyn Store,
    pass: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync,
) {
    values_come_back_as_set(store).await;
    keys_are_exact(store).await;
    values_end(store, &pass).await;
}

const LONG: Duration = Duration::from_mins(1);

async fn values_come_back_as_set(store: &dyn Store) {
    assert_eq!(store.get("a").await, Ok(None));
    let long = vec![b'x'; 100_000];
    for value in [&b""[..], b"one", b"two \0\r\n\xff", &long] {
        store.set("a", Bytes::from(value.to_vec()), LONG).await.unwrap();
        assert_eq!(store.get("a").await.unwrap().as_deref(), Some(value));
    }
    store.delete("a").await.unwrap();
    assert_eq!(store.get("a").await, Ok(None));
    store.delete("a").await.unwrap();
}

async fn keys_are_exact(store: &dyn Store) {
    let keys = ["k", "K", "k:", "k:é", "k\nv", "k v", "k*", "{k}"];
    for key in keys {
        store.set(key, Bytes::from(key.to_owned()), LONG).await.unwrap();
    }
    for key in keys {
        assert_eq!(store.get(key).await.unwrap().as_deref(), Some(key.as_bytes()), "{key}");
        store.delete(key).await.unwrap();
        assert_eq!(store.get(key).await, Ok(None), "{key}");
    }
}

async fn values_end(
    store: &dyn Store,
    pass: &(impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync),
) {
    let second = Duration::from_secs(1);
    store.set("short", Bytes::from_static(b"1"), second).await.unwrap();
    store.set("long", Bytes::from_static(b"2"), LONG).await.unwrap();
    pass(second + Duration::from_millis(100)).await;
    assert_eq!(store.get("short").await, Ok(None));
    assert!(store.get("long").await.unwrap().is_some());
    // Setting again sets the lifetime again; zero is no lifetime.
    store.set("long", Bytes::from_static(b"3"), second).await.unwrap();
    pass(second + Duration::from_millis(100)).await;
    assert_eq!(store.get("long").await, Ok(None));
    store.set("long", Bytes::from_static(b"4"), LONG).await.unwrap();
    store.set("long", Bytes::from_static(b"5"), Duration::ZERO).await.unwrap();
    assert_eq!(store.get("long").await, Ok(None));
}
