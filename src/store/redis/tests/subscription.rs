//! A subscription that is lost and found again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::proxy::{Mode, Proxy};
use super::server::Server;
use super::{Redis, Sut, config, url};
use crate::store::Store as _;
use crate::store::contract::{Heard, SOON};

pub(super) fn listen(sut: &Sut, heard: &Heard) -> tokio::task::JoinHandle<()> {
    let (store, heard) = (Arc::<Redis>::clone(&sut.store), heard.clone());
    tokio::spawn(async move { store.subscribe("channel", Arc::new(heard)).await })
}

/// Publishes until a message is heard: a subscription that was found again hears.
pub(super) async fn hears(sut: &Sut, messages: &mut UnboundedReceiver<bytes::Bytes>) {
    let heard = async {
        loop {
            let _ = sut.store.publish("channel", "again".into()).await;
            let waited = tokio::time::timeout(Duration::from_millis(50), messages.recv()).await;
            if let Ok(Some(message)) = waited {
                assert_eq!(message, "again");
                return;
            }
        }
    };
    tokio::time::timeout(SOON, heard).await.unwrap();
}

#[tokio::test]
async fn s5_8_a_subscription_is_made_again_and_says_so() {
    let mut server = Server::start(&[]);
    let sut = Sut::of(&server);
    let (heard, mut messages) = Heard::new();
    let listening = listen(&sut, &heard);
    heard.subscribed_times(1).await;
    // The connection is cut; Redis is killed and starts again.
    assert!(server.say("CLIENT KILL TYPE pubsub").starts_with(":1"));
    heard.subscribed_times(2).await;
    hears(&sut, &mut messages).await;
    assert!(*heard.lost.borrow() >= 1);
    server.kill();
    let mut lost = heard.lost.subscribe();
    let twice = lost.wait_for(|count| *count >= 2);
    tokio::time::timeout(SOON, twice).await.unwrap().unwrap();
    let before = *heard.subscribed.borrow();
    server.run();
    heard.subscribed_times(before + 1).await;
    while messages.try_recv().is_ok() {}
    hears(&sut, &mut messages).await;
    listening.abort();
}

#[tokio::test]
async fn s5_8_a_connection_on_which_nothing_comes_any_more_is_noticed() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.port, Mode::Pass).await;
    let behind = Sut::new(&config(&json!({"url": url(proxy.port), "connect_timeout": "1s"})));
    let (heard, mut messages) = Heard::new();
    let listening = listen(&behind, &heard);
    heard.subscribed_times(1).await;
    proxy.turn(Mode::Silent);
    let mut lost = heard.lost.subscribe();
    let once = lost.wait_for(|count| *count >= 1);
    tokio::time::timeout(SOON, once).await.unwrap().unwrap();
    let before = *heard.subscribed.borrow();
    proxy.turn(Mode::Pass);
    heard.subscribed_times(before + 1).await;
    hears(&Sut::of(&server), &mut messages).await;
    listening.abort();
}

#[tokio::test]
async fn s5_7_messages_of_others_are_not_believed() {
    let server = Server::start(&[]);
    let sut = Sut::of(&server);
    let (heard, mut messages) = Heard::new();
    let listening = listen(&sut, &heard);
    heard.subscribed_times(1).await;
    let theirs = config(&json!({"url": url(server.port), "key": "f".repeat(32)}));
    Sut::new(&theirs).store.publish("channel", "another key".into()).await.unwrap();
    assert!(server.say("PUBLISH portcullis:channel unsigned").starts_with(":1"));
    hears(&sut, &mut messages).await;
    assert!(sut.counts("portcullis_store_values_rejected_total 2\n"));
    listening.abort();
}
