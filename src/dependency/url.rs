//! Which URLs may be called.

use ::url::{Host, Url};
use schemars::JsonSchema;
use serde::Deserialize;

/// A URL that may be called over plain HTTP although it is not on loopback.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InsecureUrl {
    /// The URL, exactly as it is configured or published.
    pub url: String,
    /// Must be `true`: whoever is on the network path can read and change what is exchanged.
    pub insecure: bool,
    /// Why this is acceptable here.
    pub reason: String,
}

/// Why a URL may not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not an absolute URL.
    #[error("is not an absolute URL")]
    Malformed,
    /// Neither `https` nor `http`.
    #[error("is neither https nor http")]
    Scheme,
    /// It holds a user name or a password.
    #[error("holds a user name or password")]
    UserInfo,
    /// It holds a fragment.
    #[error("holds a fragment")]
    Fragment,
    /// Plain HTTP off loopback, and not listed.
    #[error("is plain http off loopback")]
    Plain,
}

impl UrlError {
    /// What to write instead.
    #[must_use]
    pub fn fix(self) -> &'static str {
        match self {
            Self::Malformed | Self::Scheme => "write an absolute https URL",
            Self::UserInfo => "give the credential in its own setting, from a file",
            Self::Fragment => "leave out `#` and what follows it",
            Self::Plain => {
                "use https, or list exactly this URL under `insecure_urls` with `insecure: true` \
                 and a `reason`"
            }
        }
    }
}

/// Whether the host is `localhost` or an address of the loopback interface.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// `text` as a URL that may be called: `https`, or `http` on loopback or where `insecure` lists
/// it with a reason.
///
/// # Errors
/// If it may not.
pub fn check_url(text: &str, insecure: &[InsecureUrl]) -> Result<Url, UrlError> {
    let url = Url::parse(text).map_err(|_| UrlError::Malformed)?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(UrlError::Scheme);
    }
    if url.host().is_none() {
        return Err(UrlError::Malformed);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(UrlError::Fragment);
    }
    let listed = |entry: &InsecureUrl| {
        entry.insecure && !entry.reason.trim().is_empty() && entry.url == text
    };
    if url.scheme() == "http" && !is_loopback(&url) && !insecure.iter().any(listed) {
        return Err(UrlError::Plain);
    }
    Ok(url)
}
