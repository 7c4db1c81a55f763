//! Where servers are.

use ::redis::ConnectionAddr;
use ::url::Url;

use crate::model::Problem;

const PORT: u16 = 6379;

/// One server, out of its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    pub(super) database: u16,
}

impl Server {
    /// Reads `redis://host:6379/0` or `rediss://…`. Problems do not quote it: a password may
    /// stand in it in spite of the documentation.
    pub(super) fn of_url(text: &str) -> Result<Self, Problem> {
        let wrong = |message: &str| {
            Problem::new("/url", message, "write `redis://host:6379/0`, or `rediss://` for TLS")
        };
        let url = Url::parse(text).map_err(|_| wrong("is no URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            let fix = "write `username` and `password_file` instead";
            return Err(Problem::new("/url", "holds a user or a password", fix));
        }
        let tls = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            _ => return Err(wrong("is neither redis nor rediss")),
        };
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has a query or a fragment"));
        }
        let database = match url.path().trim_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| wrong("has a path that is no database"))?,
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = bare(host.ok_or_else(|| wrong("has no host"))?);
        Ok(Self { host, port: url.port().unwrap_or(PORT), tls, database })
    }

    pub(super) fn address(&self) -> ConnectionAddr {
        address(&self.host, self.port, self.tls)
    }
}

/// `host:port`, IPv6 in brackets; the port may be left out.
pub(super) fn host_and_port(text: &str) -> Option<(String, u16)> {
    let url = Url::parse(&format!("redis://{text}")).ok()?;
    let plain = url.username().is_empty()
        && url.password().is_none()
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none();
    let host = url.host_str().filter(|host| plain && !host.is_empty())?;
    Some((bare(host), url.port().unwrap_or(PORT)))
}

pub(super) fn address(host: &str, port: u16, tls: bool) -> ConnectionAddr {
    let host = host.to_owned();
    if tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}
