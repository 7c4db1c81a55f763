//! How a call fails.

use crate::telemetry::CallOutcome;

/// Why a call brought no whole answer. It holds no URL, header or text of the answer, so it may
/// be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not called: too many calls wait already, or this one waited too long for a place.
    #[error("not called: too many calls are waiting")]
    Shed,
    /// Not called: the dependency failed too often lately, and it is not yet time to try again.
    #[error("not called: it failed too often lately")]
    Open,
    /// No connection, and more is not known.
    #[error("no connection")]
    Unreachable,
    /// No connection: the host's name does not resolve.
    #[error("no connection: the name does not resolve")]
    NoName,
    /// No connection: the port is closed.
    #[error("no connection: nobody listens there")]
    NotListening,
    /// No connection: no TLS is spoken there, or its certificate is not trusted for the name.
    #[error("no connection: TLS failed")]
    NoTls,
    /// No connection in time, TLS included where it is spoken.
    #[error("no connection in time")]
    SlowConnect,
    /// No whole answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The answer is larger than the dependency's cap.
    #[error("the answer is too large")]
    TooLarge,
    /// The connection broke, or what came is not HTTP.
    #[error("the answer broke off or is not HTTP")]
    Broken,
    /// The dependency does not serve us at all, such as for a wrong password.
    #[error("{0}")]
    Refused(&'static str),
    /// The call could not be made of its parts, such as a credential that is no header value.
    #[error("{0}")]
    Invalid(&'static str),
}

impl CallError {
    /// The label it is counted under; `None` where no call was to be made.
    #[must_use]
    pub fn outcome(self) -> Option<CallOutcome> {
        match self {
            Self::Shed => Some(CallOutcome::Shed),
            Self::Open => Some(CallOutcome::Open),
            Self::Unreachable
            | Self::NoName
            | Self::NotListening
            | Self::NoTls
            | Self::SlowConnect => Some(CallOutcome::Unreachable),
            Self::Timeout => Some(CallOutcome::Timeout),
            Self::TooLarge | Self::Broken | Self::Refused(_) => Some(CallOutcome::Failed),
            Self::Invalid(_) => None,
        }
    }

    /// Whether no connection was had.
    #[must_use]
    pub fn is_unreachable(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::NoName | Self::NotListening | Self::NoTls | Self::SlowConnect
        )
    }

    /// As static text, for states that are shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shed => "not called: too many calls are waiting",
            Self::Open => "not called: it failed too often lately",
            Self::Unreachable => "no connection",
            Self::NoName => "no connection: the name does not resolve",
            Self::NotListening => "no connection: nobody listens there",
            Self::NoTls => "no connection: TLS failed",
            Self::SlowConnect => "no connection in time",
            Self::Timeout => "no answer in time",
            Self::TooLarge => "the answer is too large",
            Self::Broken => "the answer broke off or is not HTTP",
            Self::Refused(what) | Self::Invalid(what) => what,
        }
    }
}

impl From<&reqwest::Error> for CallError {
    fn from(error: &reqwest::Error) -> Self {
        // A connect time-out is both; the dependency could not be reached.
        if error.is_connect() && error.is_timeout() {
            Self::SlowConnect
        } else if error.is_connect() {
            unreachable_because(error)
        } else if error.is_timeout() {
            Self::Timeout
        } else if error.is_builder() {
            Self::Invalid("the request could not be built")
        } else {
            Self::Broken
        }
    }
}

/// Why no connection was had, as far as the causes of `error` tell.
fn unreachable_because(error: &reqwest::Error) -> CallError {
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        let io = found.downcast_ref::<std::io::Error>();
        if io.is_some_and(is_of_tls) {
            return CallError::NoTls;
        }
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return CallError::NotListening;
        }
        // Its type is private to the HTTP client.
        if found.to_string().starts_with("dns error") {
            return CallError::NoName;
        }
        cause = found.source();
    }
    CallError::Unreachable
}

/// Whether TLS is what failed; errors of I/O are wrapped into one another.
fn is_of_tls(error: &std::io::Error) -> bool {
    let mut error = error;
    while let Some(inner) = error.get_ref() {
        if inner.is::<tokio_rustls::rustls::Error>() {
            return true;
        }
        let Some(wrapped) = inner.downcast_ref() else { return false };
        error = wrapped;
    }
    false
}
