//! `tls` of an address.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{Problem, Secret};

/// TLS of one address, and who may connect to it.
///
/// TLS 1.3 with AES-GCM or ChaCha20-Poly1305, TLS 1.2 with the same and ECDHE; nothing else is
/// spoken. Sessions are never resumed: every connection shows its certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Our certificate in PEM, followed by those between it and its root.
    pub certificate: Option<String>,
    /// File that holds `certificate`. It is read again when it changes.
    pub certificate_file: Option<PathBuf>,
    /// Private key of the certificate in PEM.
    pub key: Option<Secret<String>>,
    /// File that holds `key`. It is read again when it changes.
    pub key_file: Option<PathBuf>,
    /// Roots in PEM that sign the certificates of those who may connect. Left out, no certificate
    /// is asked for, and whoever reaches the address may connect.
    pub client_ca: Option<String>,
    /// File that holds `client_ca`. It is read again when it changes.
    pub client_ca_file: Option<PathBuf>,
    /// Names of those who may connect, each one of a certificate's subject alternative names:
    /// `spiffe://domain/path` or `dns:name`, equal as a whole. Others get nothing. Left out: every
    /// certificate that `client_ca` signed.
    pub allowed_peers: Option<Vec<String>>,
    /// The oldest version spoken.
    pub min_version: TlsVersion,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3. Envoy speaks 1.2 to upstreams where nothing else is set.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 alone.
    #[serde(rename = "1.3")]
    Tls13,
}

impl TlsConfig {
    /// Every problem that shows without looking into the certificates. `authenticates` says that
    /// those who connect must show one.
    pub(super) fn problems(&self, authenticates: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut note = |at: &str, text: &str, fix: &str| {
            problems.push(Problem::new(at, text, fix));
        };
        if self.certificate.is_none() {
            note("", "there is no certificate", "add `certificate_file`");
        }
        if self.key.is_none() {
            note("", "there is no private key", "add `key_file`");
        }
        let peers = self.allowed_peers.as_deref();
        match (&self.client_ca, peers) {
            (None, Some(_)) => {
                let text = "names are believed only where a certificate is asked for";
                note("/allowed_peers", text, "add `client_ca_file`");
            }
            (None, None) if authenticates => note(
                "",
                "whoever reaches this address can ask for decisions",
                "add `client_ca_file`, and `allowed_peers` where its CA signs for others too",
            ),
            _ => {}
        }
        if peers.is_some_and(<[String]>::is_empty) {
            let fix = "name who may connect, or leave the key out";
            note("/allowed_peers", "the list is empty, so that nobody could connect", fix);
        }
        for (index, peer) in peers.unwrap_or_default().iter().enumerate() {
            let name = peer.strip_prefix("spiffe://").or_else(|| peer.strip_prefix("dns:"));
            if !name.is_some_and(|name| !name.is_empty() && !name.contains('*')) {
                let text = format!("`{peer}` is no name of a peer");
                let fix = "write spiffe://domain/path or dns:name, without `*`";
                note(&format!("/allowed_peers/{index}"), &text, fix);
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The pointers of what is wrong with a sound section that was changed.
    fn wrong(change: &Value, authenticates: bool) -> Vec<String> {
        let mut section = json!({"certificate": "C", "key": "K"});
        section.as_object_mut().unwrap().extend(change.as_object().cloned().unwrap());
        let config: TlsConfig = serde_json::from_value(section).unwrap();
        config.problems(authenticates).into_iter().map(|problem| problem.pointer).collect()
    }

    #[test]
    fn s8_6_a_door_that_gives_decisions_asks_for_certificates() {
        assert!(wrong(&json!({}), false).is_empty());
        assert_eq!(wrong(&json!({}), true), [""]);
        assert!(wrong(&json!({"client_ca": "R"}), true).is_empty());
    }

    #[test]
    fn a_certificate_and_its_key_are_both_there() {
        assert_eq!(wrong(&json!({"certificate": null}), false), [""]);
        assert_eq!(wrong(&json!({"key": null}), false), [""]);
        assert_eq!(wrong(&json!({"certificate": null, "key": null}), false), ["", ""]);
    }

    #[test]
    fn peers_are_whole_names_and_need_a_ca() {
        let peers = |peers: &Value| wrong(&json!({"client_ca": "R", "allowed_peers": peers}), true);
        assert!(peers(&json!(["spiffe://d/p", "dns:a.example.test"])).is_empty());
        assert_eq!(peers(&json!([])), ["/allowed_peers"]);
        for bad in ["a.example.test", "dns:", "spiffe://", "dns:*.example.test", "uri:x", ""] {
            assert_eq!(peers(&json!(["dns:good", bad])), ["/allowed_peers/1"], "{bad}");
        }
        assert_eq!(wrong(&json!({"allowed_peers": ["dns:a"]}), true), ["/allowed_peers"]);
    }

    #[test]
    fn versions_are_two_and_words_are_known() {
        let read = |text: &str| serde_json::from_value::<TlsConfig>(json!({"min_version": text}));
        assert_eq!(read("1.3").unwrap().min_version, TlsVersion::Tls13);
        assert_eq!(read("1.2").unwrap().min_version, TlsVersion::default());
        for old in ["1.1", "1.0", "SSLv3", ""] {
            assert!(read(old).is_err(), "{old}");
        }
        assert!(serde_json::from_value::<TlsConfig>(json!({"ciphers": ["RC4"]})).is_err());
    }
}
