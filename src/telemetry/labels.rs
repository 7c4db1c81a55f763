//! Label sets. Every label has a bounded number of values.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;

/// `portcullis_checks_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CheckLabels {
    pub outcome: &'static str,
    pub reason: String,
    pub route: String,
}

/// Anything by outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub outcome: &'static str,
}

/// Anything by stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StageLabels {
    pub stage: &'static str,
}

/// `portcullis_degraded_answers_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DegradedLabels {
    pub mark: &'static str,
    pub part: &'static str,
}

/// `portcullis_build_info`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VersionLabels {
    pub version: &'static str,
}

/// A cache by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CacheLabels {
    pub cache: &'static str,
}

/// A cache's look-ups by result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CacheResultLabels {
    pub cache: &'static str,
    pub result: &'static str,
}

/// A dependency's calls by outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CallLabels {
    pub dependency: String,
    pub outcome: &'static str,
}

/// A dependency.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DependencyLabels {
    pub dependency: String,
}

/// The policies' content hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RevisionLabels {
    pub revision: String,
}

/// An issuer by its configured name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct IssuerLabels {
    pub issuer: String,
}

/// A listener's door.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DoorLabels {
    pub door: &'static str,
}

/// `portcullis_tls_refused_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusedLabels {
    pub door: &'static str,
    pub why: &'static str,
}

/// `portcullis_invalidations_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InvalidationLabels {
    pub how: &'static str,
    pub kind: &'static str,
}

/// The name of a dependency, from configuration: `jwks:<issuer>`, `user_api`, …
pub type DependencyName = Arc<str>;

/// How a call to a dependency ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// A useful answer.
    Ok,
    /// An answer that says no to the caller or knows no such thing (4xx).
    Refused,
    /// An answer that is a failure of the dependency.
    Failed,
    /// No answer in time.
    Timeout,
    /// No connection.
    Unreachable,
    /// Not called: too many calls wait already.
    Shed,
    /// Not called: it failed too often lately.
    Open,
}

impl CallOutcome {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Shed => "shed",
            Self::Open => "open",
        }
    }
}
