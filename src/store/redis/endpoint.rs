//! How a connection is made: to one server, to the master that Sentinels name, to a cluster.

use std::path::Path;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _,
    ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
    TlsMode, Value,
};

use super::address::{Server, address, host_and_port};
use crate::model::{Problem, Secret};
use crate::store::config::{RedisConfig, SentinelConfig};

/// Where to connect to, and as whom.
pub(super) struct Endpoint {
    to: To,
    username: Option<String>,
    password: Option<Secret<String>>,
    roots: Option<Vec<u8>>,
    tls: bool,
    timeout: Duration,
    connect_timeout: Duration,
}

enum To {
    Server(Server),
    Sentinels(SentinelConfig, Vec<ConnectionAddr>),
    Cluster(Vec<ConnectionAddr>),
}

/// A connection; clones share it. Commands are pipelined, and each reply goes to the command
/// that it answers: the library keeps the place of a command that nobody waits for any more.
#[derive(Clone)]
pub(super) enum Connection {
    /// To one server.
    One(MultiplexedConnection),
    /// To all nodes of a cluster; it reconnects and follows moved slots by itself.
    Cluster(ClusterConnection),
}

impl Connection {
    pub(super) async fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

/// Commands are bounded where they are made, and so is connecting.
fn untimed() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}

impl Endpoint {
    /// Where `config`, which has no problems, leads to. Reads the certificates.
    pub(super) fn new(config: &RedisConfig, base: &Path) -> Result<Self, Problem> {
        let addresses = |all: &[String]| -> Vec<ConnectionAddr> {
            let known = all.iter().filter_map(|text| host_and_port(text));
            known.map(|(host, port)| address(&host, port, config.tls)).collect()
        };
        let (to, tls) = match (&config.url, &config.sentinels, &config.cluster) {
            (Some(url), _, _) => {
                let server = Server::of_url(url)?;
                let tls = server.tls;
                (To::Server(server), tls)
            }
            (None, Some(sentinels), _) => {
                (To::Sentinels(sentinels.clone(), addresses(&sentinels.addresses)), config.tls)
            }
            (None, None, nodes) => {
                (To::Cluster(addresses(nodes.as_deref().unwrap_or_default())), config.tls)
            }
        };
        let read = |file: &std::path::PathBuf| {
            let path = base.join(file);
            std::fs::read(&path).map_err(|error| {
                let message = format!("`{}` cannot be read: {error}", path.display());
                Problem::new("/ca_file", message, "name a readable file of PEM certificates")
            })
        };
        Ok(Self {
            to,
            username: config.username.clone(),
            password: config.password.clone(),
            roots: config.ca_file.as_ref().map(read).transpose()?,
            tls,
            timeout: config.timeout.0,
            connect_timeout: config.connect_timeout.0,
        })
    }

    /// Connects: resolves names and asks Sentinels anew each time. The caller bounds the time.
    pub(super) async fn connect(&self) -> RedisResult<Connection> {
        match &self.to {
            To::Server(_) | To::Sentinels(..) => Ok(Connection::One(self.one(0, untimed()).await?)),
            To::Cluster(nodes) => {
                let connecting = self.cluster(nodes)?;
                Ok(Connection::Cluster(connecting.get_async_connection().await?))
            }
        }
    }

    /// A connection that messages come by: to the server, to the master, or to a node of the
    /// cluster (the `nth`, so that another is tried where one hangs); all nodes pass messages on.
    /// The caller bounds the time.
    pub(super) async fn listen(
        &self,
        nth: usize,
        messages: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
    ) -> RedisResult<MultiplexedConnection> {
        self.one(nth, untimed().set_push_sender(messages)).await
    }

    async fn one(
        &self,
        nth: usize,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let (address, who) = match &self.to {
            To::Server(server) => (server.address(), self.who().set_db(server.database.into())),
            To::Cluster(nodes) => {
                let node = nodes.get(nth % nodes.len().max(1)).cloned();
                let missing = (ErrorKind::InvalidClientConfig, "there is no node");
                (node.ok_or(RedisError::from(missing))?, self.who())
            }
            To::Sentinels(sentinels, addresses) => {
                let mut client = self.sentinels(sentinels, addresses)?.build()?;
                return client.get_async_connection_with_config(&config).await;
            }
        };
        let info = address.into_connection_info()?.set_redis_settings(who);
        let client = match self.certificates().filter(|_| self.tls) {
            Some(certificates) => Client::build_with_tls(info, certificates)?,
            None => Client::open(info)?,
        };
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    fn who(&self) -> RedisConnectionInfo {
        let mut who = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(username) = &self.username {
            who = who.set_username(username);
        }
        if let Some(password) = &self.password {
            who = who.set_password(password.expose());
        }
        who
    }

    fn certificates(&self) -> Option<TlsCertificates> {
        let root_cert = Some(self.roots.clone()?);
        Some(TlsCertificates { client_tls: None, root_cert })
    }

    fn sentinels(
        &self,
        config: &SentinelConfig,
        addresses: &[ConnectionAddr],
    ) -> RedisResult<SentinelClientBuilder> {
        let kind = SentinelServerType::Master;
        let mut builder = SentinelClientBuilder::new(addresses.to_vec(), &config.master, kind)?
            .set_client_to_redis_protocol(ProtocolVersion::RESP3)
            .set_client_to_redis_db(config.database.into());
        if let Some(username) = &self.username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = &self.password {
            builder = builder.set_client_to_redis_password(password.expose());
        }
        if let Some(username) = &config.username {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = &config.password {
            builder = builder.set_client_to_sentinel_password(password.expose());
        }
        if self.tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
        }
        if let Some(certificates) = self.certificates().filter(|_| self.tls) {
            builder = builder.set_client_to_redis_certificates(certificates.clone());
            builder = builder.set_client_to_sentinel_certificates(certificates);
        }
        Ok(builder)
    }

    fn cluster(&self, nodes: &[ConnectionAddr]) -> RedisResult<ClusterClient> {
        let who = self.who();
        let nodes = nodes.iter().map(|node| {
            Ok::<_, RedisError>(
                node.clone().into_connection_info()?.set_redis_settings(who.clone()),
            )
        });
        let mut builder = ClusterClient::builder(nodes.collect::<RedisResult<Vec<_>>>()?)
            .use_protocol(ProtocolVersion::RESP3)
            .connection_timeout(self.connect_timeout)
            .response_timeout(self.timeout)
            .retries(2);
        if let Some(certificates) = self.certificates().filter(|_| self.tls) {
            builder = builder.certs(certificates);
        }
        builder.build()
    }
}
