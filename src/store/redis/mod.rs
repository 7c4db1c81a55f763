//! The store in Redis: one server, a master that Sentinels name, or a cluster.
//!
//! Every command goes through the dependency's guard, so that a Redis that fails costs a Check
//! its small time-out a few times and then nothing. Nobody is asked at start. What Redis holds
//! is not trusted: see [`envelope`].

mod address;
mod endpoint;
mod envelope;
mod link;
mod problems;
mod subscription;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use bytes::Bytes;

use self::endpoint::Endpoint;
use self::envelope::{HEAD, Signer};
use self::link::{Link, Reply};
use super::config::RedisConfig;
use super::{Store, StoreError, Storing, Subscriber};
use crate::clock::{Clock, Expiry};
use crate::dependency::{Answer, CallError, Guard, GuardOptions};
use crate::model::{BoxFuture, Problem};
use crate::telemetry::Metrics;
use crate::telemetry::trace::{self, KeyValue};

/// A [`Store`] in Redis.
pub struct Redis {
    link: Link,
    guard: Arc<Guard>,
    signer: Signer,
    prefix: String,
    max_value: usize,
    connect_timeout: Duration,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis")
    }
}

impl Redis {
    /// The store that `config` describes; relative paths start at `base`. Connects to nothing
    /// yet.
    ///
    /// # Errors
    /// All that is wrong with the section.
    pub fn new(
        config: &RedisConfig,
        base: &Path,
        clock: Clock,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, Vec<Problem>> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let endpoint = Endpoint::new(config, base).map_err(|problem| vec![problem])?;
        let guard = GuardOptions {
            name: "redis".into(),
            timeout: config.timeout.0,
            max_in_flight: config.max_in_flight,
            max_waiting: config.max_waiting,
            breaker: config.breaker,
        };
        Ok(Self {
            link: Link::new(endpoint, config.connect_timeout.0),
            guard: Guard::new(&guard, Arc::clone(metrics)),
            signer: Signer::new(config.key.as_ref()),
            prefix: config.prefix.clone(),
            max_value: config.max_value.as_usize(),
            connect_timeout: config.connect_timeout.0,
            clock,
            metrics: Arc::clone(metrics),
        })
    }

    /// Makes `command`, which may be made twice.
    async fn run(&self, command: &Cmd) -> Result<Reply, StoreError> {
        self.run_with(command, true).await
    }

    async fn run_with(&self, command: &Cmd, again: bool) -> Result<Reply, StoreError> {
        let judge = |reply: &Reply| match reply {
            Reply::Value(_) | Reply::WrongType => Answer::Useful,
            Reply::No(_) => Answer::Busy,
        };
        let attempt = || self.link.command(command);
        let calling = trace::call();
        let reply = self.guard.call(None, again, judge, attempt).await;
        if let Some(calling) = calling {
            calling.end(|| told(command, &reply));
        }
        match reply {
            Ok(Reply::No(why)) => Err(StoreError(why)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(StoreError(error.as_str())),
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        let key = format!("{}{key}", self.prefix);
        // One byte more than is allowed says that it is too large, however large it is.
        let mut command = cmd("GETRANGE");
        command.arg(&key).arg(0).arg(self.max_value.saturating_add(HEAD));
        let found = match self.run(&command).await? {
            Reply::Value(Value::BulkString(bytes)) if bytes.is_empty() => return Ok(None),
            Reply::Value(Value::BulkString(bytes)) => Some(Bytes::from(bytes)),
            Reply::Value(Value::Nil) => return Ok(None),
            _ => None,
        };
        let bounded = found.filter(|whole| whole.len() <= self.max_value.saturating_add(HEAD));
        let now = self.clock.now().unix_nanos;
        let opened = bounded.and_then(|whole| self.signer.open(&key, &whole, now).ok());
        if opened.is_none() {
            self.metrics.store_rejected.inc();
        }
        Ok(opened.flatten())
    }

    async fn write(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<(), StoreError> {
        let Some(sealed) = self.seal(key, value, ttl) else {
            self.forget(key).await?;
            let too_large = value.len() > self.max_value;
            return if too_large { Err(StoreError("the value is too large")) } else { Ok(()) };
        };
        let Sealed { key, whole, millis } = sealed;
        self.run(cmd("SET").arg(&key).arg(whole).arg("PX").arg(millis)).await.map(drop)
    }

    /// Writes where the value is `expected`, or where there is none.
    async fn write_if(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let sealed = self.seal(key, value, ttl).ok_or(StoreError("the value cannot be kept"))?;
        let Sealed { key, whole, millis } = sealed;
        let mut command = match expected {
            None => cmd("SET"),
            Some(_) => cmd("EVAL"),
        };
        match expected {
            None => command.arg(&key).arg(whole).arg("PX").arg(millis).arg("NX"),
            Some(expected) => {
                let at = HEAD.saturating_add(1);
                command.arg(SWAP).arg(1).arg(&key).arg(at).arg(expected).arg(whole).arg(millis)
            }
        };
        let reply = self.run_with(&command, false).await?;
        Ok(matches!(reply, Reply::Value(Value::Okay | Value::Int(1))))
    }

    /// The value as Redis is to hold it; `None` where it can hold it for no time, or not at all.
    fn seal(&self, key: &str, value: &Bytes, ttl: Duration) -> Option<Sealed> {
        let ttl = jittered(ttl);
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).min(LONGEST);
        if value.len() > self.max_value || millis == 0 {
            return None;
        }
        let key = format!("{}{key}", self.prefix);
        let ends = Expiry::after(&self.clock.now(), ttl).unix_nanos();
        let whole = self.signer.seal(&key, value, ends);
        Some(Sealed { key, whole, millis })
    }

    async fn tell(&self, channel: &str, message: &Bytes) -> Result<(), StoreError> {
        let channel = format!("{}{channel}", self.prefix);
        let ends = Expiry::after(&self.clock.now(), MESSAGE_STAYS).unix_nanos();
        let whole = self.signer.seal(&channel, message, ends);
        self.run_with(cmd("PUBLISH").arg(channel).arg(whole), false).await.map(drop)
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        let key = format!("{}{key}", self.prefix);
        self.run(cmd("DEL").arg(&key)).await.map(drop)
    }
}

/// Ready to be written.
struct Sealed {
    key: String,
    whole: Vec<u8>,
    millis: u64,
}

/// Sets a key to `ARGV[3]` if its value, from its byte `ARGV[1]` on, is `ARGV[2]`. What stands
/// before it is the envelope, which differs with each writing.
const SWAP: &str = "\
local whole = redis.call('GETRANGE', KEYS[1], 0, -1) \
if whole == '' or string.sub(whole, ARGV[1]) ~= ARGV[2] then return 0 end \
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4]) \
return 1";

/// A message is heard at once or never; this only bounds how long a copy of it verifies, and
/// leaves room for clocks that differ.
const MESSAGE_STAYS: Duration = Duration::from_hours(1);

/// A command as traces tell of it: its name alone, for a key stands for a user.
fn told(command: &Cmd, reply: &Result<Reply, CallError>) -> trace::Told {
    let name = match command.args_iter().next() {
        Some(::redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => "command".to_owned(),
    };
    let attributes = vec![
        KeyValue::new("portcullis.dependency", "redis"),
        KeyValue::new("db.system.name", "redis"),
        KeyValue::new("db.operation.name", name.clone()),
    ];
    let error = match reply {
        Ok(Reply::No(why)) => Some(*why),
        Ok(_) => None,
        Err(error) => Some(error.as_str()),
    };
    trace::Told { name: format!("{name} redis"), attributes, error }
}

/// A year; Redis refuses numbers whose sum with the time overflows.
const LONGEST: u64 = 365 * 24 * 3600 * 1000;

/// Up to a tenth less, so that what was loaded together does not end together.
fn jittered(ttl: Duration) -> Duration {
    let part = getrandom::u32().unwrap_or(0);
    ttl.saturating_sub((ttl / 10).mul_f64(f64::from(part) / f64::from(u32::MAX)))
}

impl Store for Redis {
    fn get<'a>(&'a self, key: &'a str) -> Storing<'a, Option<Bytes>> {
        Box::pin(self.read(key))
    }

    fn set<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, ()> {
        Box::pin(async move { self.write(key, &value, ttl).await })
    }

    fn set_if_absent<'a>(&'a self, key: &'a str, value: Bytes, ttl: Duration) -> Storing<'a, bool> {
        Box::pin(async move { self.write_if(key, None, &value, ttl).await })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Bytes,
        ttl: Duration,
    ) -> Storing<'a, bool> {
        Box::pin(async move { self.write_if(key, Some(expected), &value, ttl).await })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Storing<'a, ()> {
        Box::pin(self.forget(key))
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Bytes) -> Storing<'a, ()> {
        Box::pin(async move { self.tell(channel, &message).await })
    }

    fn subscribe<'a>(
        &'a self,
        channel: &'a str,
        subscriber: Arc<dyn Subscriber>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(subscription::run(self, channel, subscriber))
    }
}
