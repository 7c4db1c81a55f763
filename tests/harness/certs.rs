//! Throw-away certificates: a CA, and what it signs.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    date_time_ymd,
};

/// Who Envoy says it is.
pub(crate) const ENVOY: &str = "spiffe://example.test/envoy";

/// A CA of one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With the same name as its issuer a certificate would count as signed by itself.
        params.distinguished_name.push(DnType::CommonName, "CA");
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate with that name: `spiffe://…` or a DNS name.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.sign(name, None)
    }

    /// One that is over.
    pub(crate) fn expired(&self, name: &str) -> Pair {
        self.sign(name, Some(2021))
    }

    /// One that ends with the beginning of `year`.
    pub(crate) fn ending(&self, name: &str, year: i32) -> Pair {
        self.sign(name, Some(year))
    }

    fn sign(&self, name: &str, end: Option<i32>) -> Pair {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "peer");
        let san = name.try_into().unwrap();
        let uri = name.contains("://");
        params.subject_alt_names =
            vec![if uri { SanType::URI(san) } else { SanType::DnsName(san) }];
        if let Some(year) = end {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(year, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    /// The files that `envoy/mtls.yaml` and its Portcullis read.
    pub(crate) fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        let (envoy, portcullis) = (self.issue(ENVOY), self.issue("portcullis"));
        for (name, text) in [
            ("ca.crt", &self.pem()),
            ("tls.crt", &envoy.certificate),
            ("tls.key", &envoy.key),
            ("server.crt", &portcullis.certificate),
            ("server.key", &portcullis.key),
        ] {
            fs::write(dir.join(name), text).unwrap();
        }
    }
}
