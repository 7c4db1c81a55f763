//! The subscription: a connection of its own, made again when it is lost.
//!
//! It is pinged, so that a connection on which nothing comes any more is noticed. It does not go
//! through the guard: its failures say nothing of commands, and a breaker must not delay it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{PushInfo, PushKind, Value, cmd};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Redis;
use crate::store::Subscriber;

/// Pauses between attempts: the first, doubled up to the last, each up to a half shorter.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// How often the connection is pinged, and how long an answer may take.
const PING: Duration = Duration::from_secs(1);
/// Messages that wait while one is taken. With more, the subscription begins anew.
const WAITING: usize = 1024;

/// Why a subscription ended; nobody needs more than that it did.
struct Ended;

/// Runs until it is dropped.
pub(super) async fn run(redis: &Redis, channel: &str, subscriber: Arc<dyn Subscriber>) {
    let channel = format!("{}{channel}", redis.prefix);
    let mut pause = FIRST_PAUSE;
    for nth in 0.. {
        let began = Instant::now();
        let Err(Ended) = once(redis, nth, &channel, &*subscriber).await;
        subscriber.lost();
        if began.elapsed() > PING {
            pause = FIRST_PAUSE;
        }
        let part = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
        sleep(pause.mul_f64(1.0 - part / 2.0)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

async fn once(
    redis: &Redis,
    nth: usize,
    channel: &str,
    subscriber: &dyn Subscriber,
) -> Result<Infallible, Ended> {
    let limit = redis.connect_timeout;
    let (send, mut messages) = mpsc::channel::<PushInfo>(WAITING);
    // The client drops what finds the queue full and goes on, so it is noted here.
    let full = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&full);
    let sender = move |push| send.try_send(push).map_err(|_| noted.store(true, Ordering::Relaxed));
    let connecting = redis.link.endpoint().listen(nth, sender);
    let mut connection = within(limit, connecting).await?;
    within(limit, connection.subscribe(channel)).await?;
    within(limit, subscriber.subscribed()).await?;
    loop {
        let next = Instant::now() + PING;
        while let Ok(message) = timeout_at(next, messages.recv()).await {
            take(redis, channel, subscriber, message.ok_or(Ended)?).await?;
            if full.load(Ordering::Relaxed) {
                return Err(Ended);
            }
        }
        let pong: Value = within(PING, cmd("PING").query_async(&mut connection)).await?;
        drop(pong);
    }
}

async fn take(
    redis: &Redis,
    channel: &str,
    subscriber: &dyn Subscriber,
    push: PushInfo,
) -> Result<(), Ended> {
    match (push.kind, push.data.as_slice()) {
        (PushKind::Disconnection | PushKind::Unsubscribe, _) => Err(Ended),
        (PushKind::Message, [_, Value::BulkString(whole)]) => {
            let whole = Bytes::from(whole.clone());
            let now = redis.clock.now().unix_nanos;
            match redis.signer.open(channel, &whole, now) {
                Ok(Some(message)) => subscriber.message(message).await,
                _ => {
                    redis.metrics.store_rejected.inc();
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

async fn within<T, E>(
    limit: Duration,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, Ended> {
    timeout(limit, future).await.map_err(|_| Ended)?.map_err(|_| Ended)
}
