use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::super::{CallError, HttpOptions};
use super::{client, get, options};

/// A server for `localhost` with a certificate of its own; answers with the protocol's version.
async fn server(alpn: &[&str]) -> (String, PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let pem = std::env::temp_dir().join(format!(
        "portcullis-tls-{}-{}.pem",
        std::process::id(),
        alpn.len()
    ));
    std::fs::write(&pem, certificate.pem()).unwrap();
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request: http::Request<_>| async move {
                    let _: &hyper::body::Incoming = request.body();
                    let version = format!("{:?}", request.version());
                    Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(version))))
                });
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (format!("https://localhost:{port}/"), pem)
}

#[tokio::test]
async fn https_is_verified_against_the_systems_and_the_given_certificates() {
    let (url, pem) = server(&["h2", "http/1.1"]).await;
    let (strange, _) = client(&HttpOptions { tls: true, ..options() });
    assert_eq!(get(&strange, &url).await.err(), Some(CallError::NoTls));
    let (trusting, _) = client(&HttpOptions { tls: true, ca_file: Some(pem), ..options() });
    assert_eq!(&get(&trusting, &url).await.unwrap().body[..], b"HTTP/2.0");
    let elsewhere = url.replace("localhost", "127.0.0.1");
    assert_eq!(get(&trusting, &elsewhere).await.err(), Some(CallError::NoTls), "the name");
    let (plain, _) = client(&options());
    assert_eq!(get(&plain, &url).await.err(), Some(CallError::NoTls), "trusts nobody");
}

#[tokio::test]
async fn a_server_without_http_2_is_called_by_http_1() {
    let (url, pem) = server(&["http/1.1"]).await;
    let (trusting, _) = client(&HttpOptions { tls: true, ca_file: Some(pem), ..options() });
    assert_eq!(&get(&trusting, &url).await.unwrap().body[..], b"HTTP/1.1");
}
