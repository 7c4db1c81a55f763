//! What every [`Store`] must do, run against each adapter.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};

use super::{Store, Storing, Subscriber};
use crate::model::BoxFuture;

/// Runs the suite on `store`, which must be empty; `pass` lets time go by for it.
pub(super) async fn holds(
    store: &dyn Store,
    pass: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync,
) {
    values_come_back_as_set(store).await;
    keys_are_exact(store).await;
    values_end(store, &pass).await;
    one_of_many_sets_what_is_absent(store, &pass).await;
    one_of_many_swaps(store).await;
}

/// Runs the suite of messages on two ends of one store.
pub(super) async fn tells(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let (heard, mut messages) = Heard::new();
    let listening = {
        let (other, heard) = (Arc::clone(&other), heard.clone());
        tokio::spawn(async move { other.subscribe("channel", Arc::new(heard)).await })
    };
    heard.subscribed_times(1).await;
    let texts: [&[u8]; 4] = [b"", b"one", b"two \0\r\n\xff", &[b'x'; 10_000]];
    one.publish("another channel", Bytes::from_static(b"not for it")).await.unwrap();
    for text in texts {
        one.publish("channel", Bytes::from_static(text)).await.unwrap();
    }
    for text in texts {
        let message = tokio::time::timeout(SOON, messages.recv()).await.unwrap().unwrap();
        assert_eq!(message, text, "in their order, each once");
    }
    listening.abort();
    // Nobody listens.
    one.publish("nobody's", Bytes::from_static(b"x")).await.unwrap();
}

/// What no reasonable delay exceeds.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// A subscriber that passes on what it hears.
#[derive(Clone)]
pub(super) struct Heard {
    messages: mpsc::UnboundedSender<Bytes>,
    pub(super) subscribed: watch::Sender<u32>,
    pub(super) lost: watch::Sender<u32>,
}

impl Heard {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Bytes>) {
        let (messages, receiver) = mpsc::unbounded_channel();
        (
            Self { messages, subscribed: watch::Sender::new(0), lost: watch::Sender::new(0) },
            receiver,
        )
    }

    /// Waits until it has been told so often that messages come.
    pub(super) async fn subscribed_times(&self, times: u32) {
        let mut seen = self.subscribed.subscribe();
        let reached = seen.wait_for(|count| *count >= times);
        tokio::time::timeout(SOON, reached).await.unwrap().unwrap();
    }
}

impl Subscriber for Heard {
    fn subscribed(&self) -> Storing<'_, ()> {
        self.subscribed.send_modify(|count| *count += 1);
        Box::pin(async { Ok(()) })
    }

    fn message(&self, message: Bytes) -> BoxFuture<'_, ()> {
        drop(self.messages.send(message));
        Box::pin(async {})
    }

    fn lost(&self) {
        self.lost.send_modify(|count| *count += 1);
    }
}

async fn one_of_many_sets_what_is_absent(
    store: &dyn Store,
    pass: &(impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync),
) {
    let second = Duration::from_secs(1);
    let attempts = (0..20).map(|n: u32| store.set_if_absent("nx", n.to_string().into(), second));
    let done = join_all(attempts).await;
    let winners: Vec<_> = (0..20).filter(|n| done[*n] == Ok(true)).collect();
    assert_eq!(winners.len(), 1, "{done:?}");
    let kept = store.get("nx").await.unwrap().unwrap();
    assert_eq!(kept, winners[0].to_string());
    pass(second + Duration::from_millis(100)).await;
    assert_eq!(store.set_if_absent("nx", "again".into(), LONG).await, Ok(true), "it had ended");
    store.delete("nx").await.unwrap();
}

async fn one_of_many_swaps(store: &dyn Store) {
    let value = |text: &str| Bytes::from(text.to_owned());
    let swap = |from: &'static [u8], to: Bytes| store.compare_and_swap("cas", from, to, LONG);
    assert_eq!(swap(b"", value("a")).await, Ok(false), "there is nothing");
    assert_eq!(store.get("cas").await, Ok(None));
    store.set("cas", value("a"), LONG).await.unwrap();
    for other in [&b""[..], b"b", b"aa", b"A"] {
        assert_eq!(swap(other, value("c")).await, Ok(false));
    }
    let done = join_all((0..20).map(|n: u32| swap(b"a", n.to_string().into()))).await;
    let winners: Vec<_> = (0..20).filter(|n| done[*n] == Ok(true)).collect();
    assert_eq!(winners.len(), 1, "{done:?}");
    assert_eq!(store.get("cas").await.unwrap().unwrap(), winners[0].to_string());
    // Empty and binary values are values too.
    for (from, to) in [(&b""[..], &b"\0\xff\r\n"[..]), (b"\0\xff\r\n", b"")] {
        store.set("cas", Bytes::from_static(from), LONG).await.unwrap();
        assert_eq!(swap(from, Bytes::from_static(to)).await, Ok(true));
        assert_eq!(store.get("cas").await.unwrap().as_deref(), Some(to));
    }
    store.delete("cas").await.unwrap();
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
