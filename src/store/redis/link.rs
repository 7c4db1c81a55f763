//! The one connection that all commands share, made again when it fails.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use super::endpoint::{Connection, Endpoint};
use crate::dependency::CallError;
use crate::store::Flight;

/// A link to Redis.
pub(super) struct Link {
    endpoint: Arc<Endpoint>,
    connect_timeout: Duration,
    live: Arc<Mutex<Live>>,
    connecting: Flight<(), Result<(u64, Connection), CallError>>,
}

#[derive(Default)]
struct Live {
    serial: u64,
    connection: Option<Connection>,
}

/// What came of a command.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// What it says.
    Value(Value),
    /// Redis is there and does not do this: full, not writable, a key of another type.
    No(&'static str),
    /// The key holds something that is no string.
    WrongType,
}

/// A command under way. If nobody waits for its end, its connection is not used again: whoever
/// hangs may hang for all.
struct UnderWay<'a> {
    live: &'a Mutex<Live>,
    serial: u64,
    sound: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.sound {
            forget(self.live, self.serial);
        }
    }
}

fn forget(live: &Mutex<Live>, serial: u64) {
    let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
    if live.serial == serial {
        live.connection = None;
    }
}

impl Link {
    pub(super) fn new(endpoint: Endpoint, connect_timeout: Duration) -> Self {
        let (live, connecting) = (Arc::default(), Flight::default());
        Self { endpoint: Arc::new(endpoint), connect_timeout, live, connecting }
    }

    /// Where it leads to.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Makes one command. The caller bounds the time.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Reply, CallError> {
        let (serial, mut connection) = self.connection().await?;
        // A cluster's connection looks after its nodes itself: one that hangs is no reason to
        // leave the others.
        let sound = connection.is_cluster();
        let mut under_way = UnderWay { live: &self.live, serial, sound };
        let read = match connection.query(command).await {
            Ok(value) => Ok(Reply::Value(value)),
            Err(error) => read(&error),
        };
        under_way.sound = match &read {
            Ok(_) => true,
            // Not even a cluster's connection knows a node any more.
            Err(CallError::Unreachable) => false,
            Err(_) => sound,
        };
        read
    }

    /// The connection at hand, or a new one. One is made at a time, and goes on without
    /// those who wait for it: it may take longer than they have.
    async fn connection(&self) -> Result<(u64, Connection), CallError> {
        {
            let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(connection) = &live.connection {
                return Ok((live.serial, connection.clone()));
            }
        }
        let (endpoint, live) = (Arc::clone(&self.endpoint), Arc::clone(&self.live));
        let limit = self.connect_timeout;
        let connect = || async move {
            let connected = tokio::time::timeout(limit, endpoint.connect()).await;
            let connection = connected
                .map_err(|_| CallError::Unreachable)?
                .map_err(|error| refusal(&error).unwrap_or(CallError::Unreachable))?;
            let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
            live.serial = live.serial.wrapping_add(1);
            live.connection = Some(connection.clone());
            Ok((live.serial, connection))
        };
        let (_, connected) = self.connecting.join((), connect).await;
        connected.unwrap_or(Err(CallError::Unreachable))
    }
}

/// Why Redis does not serve us, if that is what `error` says.
fn refusal(error: &RedisError) -> Option<CallError> {
    let refused = CallError::Refused("Redis does not accept the user or the password");
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => Some(refused),
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
            Some(CallError::Refused("the ACL of the Redis user does not allow what we do"))
        }
        (ErrorKind::InvalidClientConfig, _) => {
            Some(CallError::Refused("the connection to Redis cannot be set up as configured"))
        }
        (ErrorKind::MasterNameNotFoundBySentinel, _) => {
            Some(CallError::Refused("the Sentinels know no master of that name"))
        }
        (ErrorKind::RESP3NotSupported, _) => {
            Some(CallError::Refused("this Redis is older than version 6"))
        }
        _ => None,
    }
}

/// What an error means: an answer, or a failure of the connection or of Redis.
fn read(error: &RedisError) -> Result<Reply, CallError> {
    use ServerErrorKind as Server;
    if let Some(refusal) = refusal(error) {
        return Err(refusal);
    }
    match (error.kind(), error.code()) {
        (_, Some("WRONGTYPE")) => Ok(Reply::WrongType),
        (_, Some("OOM")) => Ok(Reply::No("Redis has no memory left")),
        (_, Some("MISCONF" | "NOREPLICAS")) => Ok(Reply::No("Redis takes no writes now")),
        // After a failover: a new connection finds the new master, so this can be tried again.
        (ErrorKind::Server(Server::ReadOnly), _) => Err(CallError::Broken),
        (ErrorKind::Server(kind), _) => match kind {
            Server::BusyLoading | Server::MasterDown | Server::ClusterDown | Server::TryAgain => {
                Err(CallError::Refused("Redis cannot serve now"))
            }
            Server::Moved | Server::Ask => {
                Err(CallError::Refused("this Redis is a node of a cluster"))
            }
            _ => Ok(Reply::No("Redis answers with an error")),
        },
        (ErrorKind::ClusterConnectionNotFound, _) => Err(CallError::Unreachable),
        (ErrorKind::Io, _) if error.is_timeout() => Err(CallError::Timeout),
        (ErrorKind::Extension, _) => Ok(Reply::No("Redis answers with an error")),
        _ => Err(CallError::Broken),
    }
}
