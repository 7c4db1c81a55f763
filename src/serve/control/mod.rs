//! The control door: invalidations, reload, status and the log's level, for operators and for
//! services that know when rights change. Its contract is `proto/portcullis/control/v1`.

mod client;
/// The messages of the contract, made of it (`tests/control_proto.rs` makes them again).
#[rustfmt::skip]
pub mod messages;
mod service;

use crate::model::{BoxFuture, Digest};
use messages::{Cache, ReloadResponse};

pub use client::{Client, ClientError, Target, TlsFiles};
pub(super) use service::Service;

/// Largest message that is taken.
const MAX_MESSAGE: usize = 64 << 10;

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalidation {
    /// One user, whatever the token.
    User {
        /// The exact `iss`.
        issuer: String,
        /// The exact `sub`.
        subject: String,
    },
    /// One token, by its plain hash.
    Token(Digest),
    /// All that came by an issuer's tokens.
    Issuer(String),
    /// Decisions at one route.
    Route(String),
    /// Everything.
    Everything,
}

/// What the process is, as far as the doors do not know it themselves.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Seconds since it began to serve.
    pub uptime_seconds: u64,
    /// Revision of the configuration in force.
    pub configuration: String,
    /// Revision of the policies in force; empty for none.
    pub policies: String,
    /// What is kept in memory.
    pub caches: Vec<Cache>,
    /// Generation of the last invalidation that is known; zero for none.
    pub generation: u64,
    /// Whether invalidations of other replicas are heard.
    pub subscribed: bool,
    /// What is logged.
    pub log_level: String,
}

/// What the control door operates.
pub trait Operate: std::fmt::Debug + Send + Sync + 'static {
    /// Invalidates, here and at every replica; returns the generation.
    ///
    /// # Errors
    /// Why others could not be told. Then it holds here alone.
    fn invalidate(&self, what: Invalidation) -> BoxFuture<'_, Result<u64, &'static str>>;

    /// Whether the configuration in force has the issuer or the route that this names.
    fn knows(&self, what: &Invalidation) -> bool;

    /// Reloads, whole or not at all.
    fn reload(&self) -> BoxFuture<'_, ReloadResponse>;

    /// How it stands.
    fn state(&self) -> State;

    /// Logs by `filter` from now on; returns the filter in force.
    ///
    /// # Errors
    /// Why it is none.
    fn log(&self, filter: &str) -> Result<String, String>;
}
