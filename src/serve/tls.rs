//! TLS of the doors: certificates that can be replaced while they are used, and a list of peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedCipherSuite};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::config::{Address, Listen, TlsConfig, TlsVersion};
use crate::clock::Now;
use crate::model::Problem;
use crate::telemetry::Metrics;

/// What is spoken; the provider knows no other, and one that it learns is not spoken by that.
const CIPHERS: [SupportedCipherSuite; 9] = [
    aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
    aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
    aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// Certificates, keys, roots and peers of one address, made ready.
pub(super) struct Material {
    pub(super) acceptor: TlsAcceptor,
    peers: Option<Vec<String>>,
    ends: i64,
}

/// TLS of one bound address; new connections take what was put in force last.
pub(super) struct Tls {
    door: &'static str,
    address: String,
    material: ArcSwap<Material>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({} {})", self.door, self.address)
    }
}

/// The certificates of a configuration, looked at and good.
pub struct Secured(Vec<(&'static str, String, Arc<Material>)>);

impl std::fmt::Debug for Secured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secured({})", self.0.len())
    }
}

/// The certificates of the bound addresses.
#[derive(Debug, Clone, Default)]
pub struct Certificates(pub(super) Vec<Arc<Tls>>);

impl Secured {
    /// Reads the certificates of `listen`.
    ///
    /// # Errors
    /// Those that cannot be used, or are over at `now`; pointers are relative to `listen`.
    pub fn new(listen: &Listen, now: &Now) -> Result<Self, Vec<Problem>> {
        let (mut ready, mut problems) = (Vec::new(), Vec::new());
        for (door, list) in listen.doors() {
            for (index, address) in list.iter().enumerate() {
                let Some(tls) = address.tls() else { continue };
                let at = format!("/{door}/{index}/tls");
                match Material::new(tls, door) {
                    Ok(material) if material.ends <= now.unix_secs() => {
                        let fix = "name one that is still good";
                        let at = format!("{at}/certificate");
                        problems.push(Problem::new(at, "the certificate has expired", fix));
                    }
                    Ok(material) => {
                        ready.push((door, address.text().to_owned(), Arc::new(material)));
                    }
                    Err(problem) => problems.push(problem.under(&at)),
                }
            }
        }
        if problems.is_empty() { Ok(Self(ready)) } else { Err(problems) }
    }
}

impl Certificates {
    /// Puts `secured` in force for connections that begin from now on. Addresses that were not
    /// bound with TLS stay as they are.
    pub fn swap(&self, secured: &Secured) {
        for tls in &self.0 {
            let same = |(door, address, _): &&(&'static str, String, Arc<Material>)| {
                *door == tls.door && *address == tls.address
            };
            if let Some((_, _, material)) = secured.0.iter().find(same) {
                tls.material.store(Arc::clone(material));
            }
        }
    }

    /// Shows when each door's first certificate ends.
    pub fn show(&self, metrics: &Metrics) {
        for door in ["check", "admin", "api", "control"] {
            let first = AtomicI64::new(i64::MAX);
            for tls in self.0.iter().filter(|tls| tls.door == door) {
                first.fetch_min(tls.material.load().ends, Ordering::Relaxed);
            }
            let first = first.into_inner();
            if first != i64::MAX {
                metrics.in_force.certificate(door, first);
            }
        }
    }
}

impl Tls {
    /// TLS of `address`, where it is configured.
    pub(super) fn of(door: &'static str, address: &Address) -> Result<Option<Arc<Self>>, Problem> {
        let Some(config) = address.tls() else { return Ok(None) };
        let material = ArcSwap::from_pointee(Material::new(config, door)?);
        Ok(Some(Arc::new(Self { door, address: address.text().to_owned(), material })))
    }

    /// What the next connection is held against.
    pub(super) fn material(&self) -> Arc<Material> {
        self.material.load_full()
    }
}

impl Material {
    fn new(config: &TlsConfig, door: &str) -> Result<Self, Problem> {
        let provider =
            CryptoProvider { cipher_suites: CIPHERS.to_vec(), ..aws_lc_rs::default_provider() };
        let provider = Arc::new(provider);
        let versions = match config.min_version {
            TlsVersion::Tls12 => vec![&TLS13, &TLS12],
            TlsVersion::Tls13 => vec![&TLS13],
        };
        let chain = certificates("/certificate", config.certificate.as_deref())?;
        let ends = chain.first().and_then(expiry).ok_or_else(|| {
            Problem::new("/certificate", "the certificate cannot be read", "write it as PEM")
        })?;
        let key = config.key.as_ref().map(|key| key.expose().as_bytes()).unwrap_or_default();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            Problem::new("/key", "there is no private key in it", "write it as PEM")
        })?;
        let unusable = |at: &str, error: &dyn std::fmt::Display| {
            let fix = "name a certificate with the key that belongs to it";
            Problem::new(at, format!("it cannot be used: {error}"), fix)
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| unusable("", &error))?;
        let builder = if config.client_ca.is_some() {
            let mut roots = RootCertStore::empty();
            for root in certificates("/client_ca", config.client_ca.as_deref())? {
                roots.add(root).map_err(|error| unusable("/client_ca", &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .map_err(|error| unusable("/client_ca", &error))?;
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let mut server = builder
            .with_single_cert(chain, key)
            .map_err(|error| unusable("/certificate", &error))?;
        let grpc = matches!(door, "check" | "control");
        server.alpn_protocols = vec![if grpc { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        // A resumed session would outlive its certificate and the roots.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let acceptor = TlsAcceptor::from(Arc::new(server));
        Ok(Self { acceptor, peers: config.allowed_peers.clone(), ends })
    }

    /// Whether whoever showed `chain` may ask.
    pub(super) fn admits(&self, chain: Option<&[CertificateDer<'_>]>) -> bool {
        let Some(peers) = &self.peers else { return true };
        let names = chain.and_then(<[_]>::first).map(names).unwrap_or_default();
        names.iter().any(|name| peers.iter().any(|peer| peer == name))
    }

    /// The listed name of whoever showed `chain`.
    pub(super) fn name(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<Arc<str>> {
        let (peers, names) = (self.peers.as_ref()?, chain?.first().map(names)?);
        names.into_iter().find(|name| peers.contains(name)).map(Arc::from)
    }
}

fn certificates(at: &str, pem: Option<&str>) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.unwrap_or_default().as_bytes()).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(Problem::new(at, "there is no certificate in it", "write it as PEM")),
    }
}

fn expiry(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// The names of a certificate as `allowed_peers` writes them. A SPIFFE identity is the one URI of
/// its certificate (X.509-SVID, section 2): with several there is none.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(extension)) = parsed.subject_alternative_name() else { return Vec::new() };
    let all = &extension.value.general_names;
    let uris = all.iter().filter(|name| matches!(name, GeneralName::URI(_))).count();
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(format!("dns:{}", name.to_ascii_lowercase())),
        GeneralName::URI(uri) if uris == 1 && uri.starts_with("spiffe://") => {
            Some((*uri).to_owned())
        }
        _ => None,
    };
    all.iter().filter_map(name).collect()
}
