//! The client of the control door: a Unix socket, or mutual TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::body::Body;
use tonic_prost::ProstCodec;

use super::messages::{
    InvalidateRequest, InvalidateResponse, ReloadRequest, ReloadResponse, SetLogLevelRequest,
    SetLogLevelResponse, StatusRequest, StatusResponse,
};
use crate::serve::listener::Stream;

const CONNECT: Duration = Duration::from_secs(10);
/// A reload may wait for an issuer's keys.
const CALL: Duration = Duration::from_mins(1);

/// Where a control door is.
#[derive(Debug, Clone)]
pub enum Target {
    /// Its Unix socket.
    Unix(PathBuf),
    /// `host:port`, by mutual TLS.
    Tls(String, TlsFiles),
}

/// Whom the client trusts, and what it shows.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Roots that sign the door's certificate, PEM.
    pub ca: PathBuf,
    /// The client's certificate, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Name in the door's certificate; left out, the host.
    pub name: Option<String>,
}

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection.
    #[error("cannot connect to the control door: {0}")]
    Connect(String),
    /// The door refused, or the call failed.
    #[error("{}", .0.message())]
    Refused(tonic::Status),
}

impl ClientError {
    fn connect(error: impl std::fmt::Display) -> Self {
        Self::Connect(error.to_string())
    }
}

/// A connection to a control door.
#[derive(Debug, Clone)]
pub struct Client(SendRequest<Body>);

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// If nobody is there, does not want us, or files cannot be used.
    pub async fn connect(target: &Target) -> Result<Self, ClientError> {
        let connecting = timeout(CONNECT, open(target)).await;
        let stream = connecting.map_err(|_| ClientError::connect("no answer in time"))??;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(ClientError::connect)?;
        // What ends it shows in the call.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self(sender))
    }

    /// `Invalidate`.
    ///
    /// # Errors
    /// If it failed; *unavailable* where the other replicas could not be told.
    pub async fn invalidate(
        &self,
        request: InvalidateRequest,
    ) -> Result<InvalidateResponse, ClientError> {
        self.call("/portcullis.control.v1.Control/Invalidate", request).await
    }

    /// `Reload`. That the new configuration is not good is an answer and no error.
    ///
    /// # Errors
    /// If the call failed.
    pub async fn reload(&self) -> Result<ReloadResponse, ClientError> {
        self.call("/portcullis.control.v1.Control/Reload", ReloadRequest {}).await
    }

    /// `Status`.
    ///
    /// # Errors
    /// If the call failed.
    pub async fn status(&self) -> Result<StatusResponse, ClientError> {
        self.call("/portcullis.control.v1.Control/Status", StatusRequest {}).await
    }

    /// `SetLogLevel`.
    ///
    /// # Errors
    /// If it is no level and no filter.
    pub async fn set_log_level(&self, level: String) -> Result<SetLogLevelResponse, ClientError> {
        self.call("/portcullis.control.v1.Control/SetLogLevel", SetLogLevelRequest { level }).await
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, ClientError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let sender = self.0.clone();
        let service = tower::service_fn(move |call| {
            let mut sender = sender.clone();
            async move { sender.send_request(call).await }
        });
        let origin = Uri::from_static("http://portcullis.control");
        let mut grpc = tonic::client::Grpc::with_origin(service, origin);
        let codec = ProstCodec::<Q, A>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let calling = grpc.unary(tonic::Request::new(request), path, codec);
        let late = |_| ClientError::Refused(tonic::Status::deadline_exceeded("no answer in time"));
        let answer = timeout(CALL, calling).await.map_err(late)?;
        answer.map(tonic::Response::into_inner).map_err(ClientError::Refused)
    }
}

async fn open(target: &Target) -> Result<Box<dyn Stream>, ClientError> {
    match target {
        Target::Unix(path) => {
            let stream = UnixStream::connect(path).await;
            let named = |error| ClientError::Connect(format!("{}: {error}", path.display()));
            Ok(Box::new(stream.map_err(named)?))
        }
        Target::Tls(address, files) => {
            let config = files.config()?;
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            let host = files.name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
            let name = ServerName::try_from(host.to_owned()).map_err(ClientError::connect)?;
            let stream = TcpStream::connect(address).await.map_err(ClientError::connect)?;
            let connector = TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, stream).await.map_err(ClientError::connect)?;
            Ok(Box::new(stream))
        }
    }
}

impl TlsFiles {
    fn config(&self) -> Result<ClientConfig, ClientError> {
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.ca)? {
            roots.add(root).map_err(ClientError::connect)?;
        }
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| unusable(&self.key, &error))?;
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = builder
            .with_client_auth_cert(certificates(&self.certificate)?, key)
            .map_err(ClientError::connect)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> ClientError {
    ClientError::Connect(format!("{} cannot be used: {error}", file.display()))
}
