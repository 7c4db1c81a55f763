//! The section `store`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::dependency::BreakerConfig;
use crate::model::{HumanDuration, HumanSize, Problem, Secret};

/// Where state lies that replicas share. Left out, each process remembers for itself.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// A Redis that all replicas share.
    pub redis: Option<RedisConfig>,
}

/// A Redis: exactly one of `url`, `sentinels` and `cluster`. While it fails, users are asked of
/// the user API instead.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedisConfig {
    /// One server: `redis://host:6379/0`, or `rediss://` for TLS. Without user and password.
    pub url: Option<String>,
    /// Sentinels that know which server is the master.
    pub sentinels: Option<SentinelConfig>,
    /// Addresses (`host:port`) of some nodes of a cluster.
    pub cluster: Option<Vec<String>>,
    /// Whether Sentinels, the servers they name and the nodes of a cluster speak TLS.
    pub tls: bool,
    /// File of PEM certificates that are trusted, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The ACL user. Left out, `default`.
    pub username: Option<String>,
    /// The password. Better in a file.
    pub password: Option<Secret<String>>,
    /// File that holds the password.
    pub password_file: Option<PathBuf>,
    /// Time of one command, a second try included. It is added to a Check that finds nothing in
    /// memory, at most twice.
    pub timeout: HumanDuration,
    /// Time to connect, and to find the master or the cluster's nodes. No Check waits for it
    /// beyond `timeout`.
    pub connect_timeout: HumanDuration,
    /// Commands that run at once.
    pub max_in_flight: usize,
    /// Commands that may wait for their turn; more are not made.
    pub max_waiting: usize,
    /// When Redis is not asked for a while because it fails.
    pub breaker: BreakerConfig,
    /// What every key begins with, so that services can share a Redis.
    pub prefix: String,
    /// Largest value; a larger one is not kept, and not read.
    pub max_value: HumanSize,
    /// Key that authenticates the values, the same in all replicas, at least 32 bytes: whoever
    /// can write to Redis could otherwise say who may do what.
    pub key: Option<Secret<String>>,
    /// File that holds `key`.
    pub key_file: Option<PathBuf>,
    /// Whether values are kept and believed without a `key`; needs `unsigned_reason`.
    pub unsigned: bool,
    /// Why nobody else can write to this Redis.
    pub unsigned_reason: Option<String>,
}

/// Sentinels that know which server is the master.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentinelConfig {
    /// Addresses of Sentinels, `host:port`.
    pub addresses: Vec<String>,
    /// The name by which they know the master.
    pub master: String,
    /// Number of the database.
    #[serde(default)]
    pub database: u16,
    /// The Sentinels' own ACL user.
    #[serde(default)]
    pub username: Option<String>,
    /// The Sentinels' own password. Better in a file.
    #[serde(default)]
    pub password: Option<Secret<String>>,
    /// File that holds the Sentinels' own password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: None,
            sentinels: None,
            cluster: None,
            tls: false,
            ca_file: None,
            username: None,
            password: None,
            password_file: None,
            timeout: HumanDuration::millis(100),
            connect_timeout: HumanDuration::secs(2),
            max_in_flight: 256,
            max_waiting: 1024,
            breaker: BreakerConfig::default(),
            prefix: "portcullis:".to_owned(),
            max_value: HumanSize(1 << 20),
            key: None,
            key_file: None,
            unsigned: false,
            unsigned_reason: None,
        }
    }
}

impl StoreConfig {
    /// Everything that is wrong with the section, as far as no file or network is needed to see
    /// it; pointers are relative to it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let redis = self.redis.iter().flat_map(RedisConfig::problems);
        redis.map(|problem| problem.under("/redis")).collect()
    }
}
