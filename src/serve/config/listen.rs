//! `listen`: where each door listens.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::tls::TlsConfig;
use crate::model::Problem;

/// The system takes 107 bytes; the socket is made in a directory beside its place.
const MAX_SOCKET_PATH: usize = 90;

/// Where each door listens; each is a list, so that one door can have several addresses.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Addresses of the gRPC door that Envoy asks: `127.0.0.1:9191` or `unix:/path`.
    pub check: Vec<Address>,
    /// Addresses of health, readiness and metrics.
    pub admin: Vec<Address>,
    /// Addresses of the HTTP decision API; left out, there is none.
    pub api: Vec<Address>,
    /// Addresses of the control door: `unix:/path` (the owner alone may connect), or an address
    /// with `tls` that has `client_ca` and `allowed_peers`. Left out, there is none.
    pub control: Vec<Address>,
}

impl Default for Listen {
    fn default() -> Self {
        let at = |text: &str| vec![Address::Plain(text.to_owned())];
        Self {
            check: at("127.0.0.1:9191"),
            admin: at("127.0.0.1:9190"),
            api: Vec::new(),
            control: Vec::new(),
        }
    }
}

/// One address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Address {
    /// `127.0.0.1:9191`, `[::1]:9191` or `unix:/run/portcullis/check.sock`.
    Plain(String),
    /// An address with why plain TCP is fine on it.
    Explained(Explained),
    /// An address with TLS.
    Secure(Box<Secure>),
}

/// An address that speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Secure {
    /// Such as `0.0.0.0:9191`.
    pub address: String,
    /// Certificate, key, and who may connect.
    pub tls: TlsConfig,
}

/// An address off loopback, with the words that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// Such as `0.0.0.0:9191`.
    pub address: String,
    /// Why plain TCP is fine here: who can reach this address, and what keeps others out.
    pub plaintext: String,
}

/// An address, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// IP address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// The address as text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Explained(explained) => &explained.address,
            Self::Secure(secure) => &secure.address,
        }
    }

    /// TLS, where it is spoken.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsConfig> {
        if let Self::Secure(secure) = self { Some(&secure.tls) } else { None }
    }

    /// What to bind.
    ///
    /// # Errors
    /// If it is neither an IP address with a port nor `unix:` with an absolute path.
    pub fn endpoint(&self) -> Result<Endpoint, Problem> {
        let text = self.text();
        let fix = "write an IP address with a port (127.0.0.1:9191, [::1]:9191) or unix: with an \
                   absolute path (unix:/run/portcullis/check.sock)";
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            if path.as_os_str().len() > MAX_SOCKET_PATH {
                let text = format!("`{text}` is longer than {MAX_SOCKET_PATH} bytes");
                return Err(Problem::new("", text, "use a shorter path, such as one under /run"));
            }
            if path.is_absolute() && path.file_name().is_some() {
                return Ok(Endpoint::Unix(path));
            }
            return Err(Problem::new("", format!("`{text}` has no absolute path"), fix));
        }
        text.parse()
            .map(Endpoint::Tcp)
            .map_err(|_| Problem::new("", format!("`{text}` is not an address"), fix))
    }
}

impl Listen {
    /// Every door's addresses and whether they speak TLS: what cannot change after binding.
    #[must_use]
    pub fn places(&self) -> String {
        let place = |address: &Address| format!("{} {}", address.text(), address.tls().is_some());
        let all = |list: &[Address]| list.iter().map(place).collect::<Vec<_>>();
        format!("{:?}", self.doors().map(|(door, list)| (door, all(list))))
    }

    /// Every door with its addresses.
    pub(in crate::serve) fn doors(&self) -> [(&'static str, &[Address]); 4] {
        [
            ("check", &self.check),
            ("admin", &self.admin),
            ("api", &self.api),
            ("control", &self.control),
        ]
    }

    /// Every problem that shows without binding.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut seen = Vec::new();
        for (door, list) in self.doors() {
            if list.is_empty() && !matches!(door, "api" | "control") {
                let fix = "name at least one address, or leave the key out for the default";
                problems.push(Problem::new(format!("/{door}"), "the list is empty", fix));
            }
            for (index, address) in list.iter().enumerate() {
                let at = format!("/{door}/{index}");
                match address.endpoint() {
                    Err(problem) => problems.push(problem.under(&at)),
                    Ok(endpoint) => {
                        problems.extend(plaintext(door, address, &endpoint, &at));
                        problems.extend(control(door, address, &endpoint, &at));
                        if let Some(tls) = address.tls() {
                            let loopback =
                                matches!(&endpoint, Endpoint::Tcp(a) if a.ip().is_loopback());
                            let found = tls.problems(door == "check" && !loopback);
                            let at = format!("{at}/tls");
                            problems.extend(found.into_iter().map(|p| p.under(&at)));
                        }
                        let fixed = !matches!(&endpoint, Endpoint::Tcp(a) if a.port() == 0);
                        if fixed && seen.contains(&endpoint) {
                            let text = format!("`{endpoint}` is listed twice");
                            problems.push(Problem::new(at, text, "remove one of the two"));
                        }
                        seen.push(endpoint);
                    }
                }
            }
        }
        problems
    }
}

/// Whoever reaches the check door can ask for decisions and gets identity headers in reply.
fn plaintext(door: &str, address: &Address, endpoint: &Endpoint, at: &str) -> Option<Problem> {
    let Endpoint::Tcp(socket) = endpoint else { return None };
    match address {
        Address::Explained(words) if words.plaintext.trim().len() < 10 => Some(Problem::new(
            format!("{at}/plaintext"),
            "the reason is too short to be one",
            "say in a sentence who can reach this address and what keeps others out",
        )),
        Address::Plain(text) if matches!(door, "check" | "api") && !socket.ip().is_loopback() => {
            Some(Problem::new(
                at,
                format!(
                    "`{text}` is plain TCP off loopback: whoever reaches it can ask for decisions"
                ),
                format!(
                    "listen on loopback or a Unix socket, or write {{address: \"{text}\", plaintext: \"why that is fine here\"}}"
                ),
            ))
        }
        _ => None,
    }
}

/// Whoever reaches the control door operates the process.
fn control(door: &str, address: &Address, endpoint: &Endpoint, at: &str) -> Option<Problem> {
    if door != "control" || matches!(endpoint, Endpoint::Unix(_)) {
        return None;
    }
    let Some(tls) = address.tls() else {
        let text = format!("`{endpoint}` has no mutual TLS: whoever reaches it could operate us");
        let fix = "listen on a Unix socket, or write {address: …, tls: {…, allowed_peers: […]}}";
        return Some(Problem::new(at, text, fix));
    };
    tls.allowed_peers.is_none().then(|| {
        let text = "whoever the CA signed for could operate us";
        Problem::new(format!("{at}/tls"), text, "add `client_ca_file` and `allowed_peers`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(json: serde_json::Value) -> Listen {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn s8_6_plain_tcp_off_loopback_needs_words() {
        let bare = listen(serde_json::json!({"check": ["0.0.0.0:9191", "127.0.0.1:1"]}));
        let problems = bare.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].pointer, "/check/0");
        let words = serde_json::json!({"address": "0.0.0.0:9191", "plaintext": "only the pod's own Envoy reaches it"});
        assert_eq!(listen(serde_json::json!({"check": [words]})).problems(), []);
        let short = serde_json::json!({"address": "0.0.0.0:9191", "plaintext": "ok"});
        assert_eq!(listen(serde_json::json!({"check": [short]})).problems().len(), 1);
        assert_eq!(listen(serde_json::json!({"admin": ["0.0.0.0:9190"]})).problems(), []);
        assert_eq!(listen(serde_json::json!({"api": ["0.0.0.0:9192"]})).problems().len(), 1);
    }

    #[test]
    fn s8_6_control_is_a_unix_socket_or_mutual_tls_with_a_list() {
        let tls = |more: serde_json::Value| {
            let mut tls = serde_json::json!({"certificate": "c", "key": "k"});
            tls.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::json!({"address": "127.0.0.1:1", "tls": tls})
        };
        let peers = serde_json::json!({"client_ca": "a", "allowed_peers": ["dns:operator.test"]});
        let words = serde_json::json!({"address": "127.0.0.1:1", "plaintext": "loopback alone"});
        for (control, fine) in [
            (serde_json::json!("unix:/run/control.sock"), true),
            (serde_json::json!("127.0.0.1:1"), false),
            (words, false),
            (tls(serde_json::json!({})), false),
            (tls(serde_json::json!({"client_ca": "a"})), false),
            (tls(peers), true),
        ] {
            let problems = listen(serde_json::json!({"control": [control]})).problems();
            assert_eq!(problems.is_empty(), fine, "{control}: {problems:?}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused_all_at_once() {
        let bad = ["localhost", "9191", "unix:relative", "unix:", "http://127.0.0.1:1"];
        let problems = listen(serde_json::json!({"check": bad, "admin": []})).problems();
        assert_eq!(problems.len(), bad.len() + 1, "{problems:?}");
        let long = format!("unix:/{}", "a".repeat(90));
        assert_eq!(listen(serde_json::json!({"check": [long]})).problems().len(), 1);
        let twice = listen(serde_json::json!({"check": ["unix:/a"], "admin": ["unix:/a"]}));
        assert_eq!(twice.problems()[0].pointer, "/admin/0");
    }
}
