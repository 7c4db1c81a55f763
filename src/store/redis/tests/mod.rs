//! The store against real Redis servers.

mod config;
mod faults;
mod kinds;
mod poison;
mod proxy;
#[path = "../../../../tests/harness/redis.rs"]
mod server;
mod subscription;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::server::Server;
use super::Redis;
use crate::clock::Clock;
use crate::store::{RedisConfig, Store, StoreError};
use crate::telemetry::{DependencyState, Metrics};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const LONG: Duration = Duration::from_mins(5);
/// What the ACL of a user must allow for every kind of Redis.
const LEAST: &str =
    "~portcullis:* &portcullis:* -@all +getrange +set +del +eval +publish +subscribe +ping";

/// A store and what is told of it.
struct Sut {
    store: Arc<Redis>,
    metrics: Arc<Metrics>,
}

/// The configuration of these members, signed, and with time-outs that a loaded machine keeps.
fn config(members: &Value) -> RedisConfig {
    let mut whole = json!({
        "key": KEY,
        "timeout": "2s",
        "breaker": {"failures": 3, "open_for": "200ms"},
    });
    for (name, value) in members.as_object().unwrap() {
        whole[name] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

impl Sut {
    fn new(config: &RedisConfig) -> Self {
        let metrics = Arc::new(Metrics::new());
        let store = Redis::new(config, Path::new("."), Clock::system(), &metrics).unwrap();
        Self { store: Arc::new(store), metrics }
    }

    fn of(server: &Server) -> Self {
        Self::new(&config(&json!({"url": url(server.port)})))
    }

    async fn set(&self, key: &str, value: &str) -> Result<(), StoreError> {
        self.store.set(key, value.to_owned().into(), LONG).await
    }

    async fn get(&self, key: &str) -> Result<Option<String>, StoreError> {
        let found = self.store.get(key).await?;
        Ok(found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
    }

    fn state(&self) -> DependencyState {
        self.metrics.calls.states().remove(0)
    }

    fn counts(&self, line: &str) -> bool {
        self.metrics.render().unwrap().contains(line)
    }

    /// Sets and gets `key` until both work; fails after a time that no recovery may take here.
    async fn recovers(&self, key: &str, within: Duration) {
        let start = Instant::now();
        loop {
            let set = self.set(key, key).await;
            let got = self.get(key).await;
            if set.is_ok() && got == Ok(Some(key.to_owned())) {
                return;
            }
            assert!(start.elapsed() < within, "{set:?} {got:?} {:?}", self.state());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
