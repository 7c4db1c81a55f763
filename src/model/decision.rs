//! What a policy answered, and the decision made of it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Code, DecisionId, Pair, Pairs, Reason};
use crate::clock::{Expiry, Now};

/// A policy's answer, checked for its shape but not yet stamped or limited.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// Whether the request may pass.
    pub allow: bool,
    /// The policy's own reason, as it wrote it.
    pub reason: Option<String>,
    /// Status of a denial; 400–599.
    pub status: Option<u16>,
    /// Request headers to set, lower-case names.
    pub headers: Vec<(String, HeaderValue)>,
    /// Response headers to set on the answer to the client, lower-case names.
    pub response_headers: Vec<(String, HeaderValue)>,
    /// For Envoy's dynamic metadata.
    pub metadata: Map<String, Value>,
    /// What the backend must still apply; for audit and decision APIs.
    pub constraints: Option<Value>,
    /// Lifetime in seconds; `None` where the policy does not say.
    pub ttl: Option<f64>,
}

/// A header value as a policy writes it.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderValue {
    /// One value.
    Text(String),
    /// Joined by commas in `headers`, appended one by one in `response_headers`.
    List(Vec<String>),
    /// A JSON document, serialised compact and ASCII-safe after stamping.
    Document {
        /// The document as the policy returned it.
        document: Value,
        /// JSON pointers into it and what to fill in there.
        stamps: Vec<(String, Stamp)>,
    },
}

/// What only the core knows of an evaluation and fills into a header document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// The decision's id.
    DecisionId,
    /// RFC 3339 time of the Check that evaluated it.
    DecidedAt,
}

/// One evaluation's answer, finished: stamped, within limits, as bytes. It is what the decision
/// cache holds, a million times perhaps, and nothing in it belongs to a single Check.
#[derive(Debug)]
pub struct Decision {
    /// Names this evaluation.
    pub id: DecisionId,
    /// Whether the request may pass.
    pub allow: bool,
    /// Why.
    pub reason: Reason,
    /// The policy's own status of a denial.
    pub status: Option<u16>,
    /// Request headers to set: declared managed names, values that are safe to send.
    pub headers: Pairs,
    /// What most decisions lack, where there is any of it.
    pub extras: Option<Box<Extras>>,
    /// Revision of the policies that answered.
    pub revision: Arc<str>,
    /// Until when it may answer again; `None` is not cached.
    pub expires: Option<Expiry>,
}

/// What most decisions lack.
#[derive(Debug, Default)]
pub struct Extras {
    /// The policy's own text, bounded, where its reason is not a code.
    pub message: Option<Box<str>>,
    /// Response headers to append.
    pub response_headers: Pairs,
    /// The policy's metadata.
    pub metadata: Map<String, Value>,
    /// What the backend must still apply, as compact JSON in printable ASCII; shared with the
    /// record of every Check it answers.
    pub constraints: Option<Arc<str>>,
    /// The engine's own name for the evaluation, where it has one (an OPA server's `decision_id`).
    pub engine_decision_id: Option<Arc<str>>,
}

impl Extras {
    /// Itself for a decision to hold, if there is any of it.
    #[must_use]
    pub fn kept(self) -> Option<Box<Self>> {
        let none = self.message.is_none()
            && self.response_headers.is_empty()
            && self.metadata.is_empty()
            && self.constraints.is_none()
            && self.engine_decision_id.is_none();
        (!none).then(|| Box::new(self))
    }
}

/// What only the evaluation knows.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Names this evaluation.
    pub id: DecisionId,
    /// Revision of the policies that answered.
    pub revision: Arc<str>,
    /// The asking Check's time.
    pub decided_at: Now,
    /// Until when the decision may answer again; `None` is not cached.
    pub expires: Option<Expiry>,
}

impl Decision {
    /// A denial for `code` in place of what a policy answered, or did not.
    #[must_use]
    pub fn denied(code: Code, evaluation: Evaluation) -> Self {
        Self::bare(false, code, evaluation)
    }

    /// The allow that stands where no policy could be asked, for a route that says so. It sets no
    /// header and is never kept.
    #[must_use]
    pub fn open(evaluation: Evaluation) -> Self {
        Self::bare(true, Code::PolicyOpen, Evaluation { expires: None, ..evaluation })
    }

    fn bare(allow: bool, code: Code, evaluation: Evaluation) -> Self {
        Self {
            id: evaluation.id,
            allow,
            reason: code.into(),
            status: None,
            headers: Pairs::default(),
            extras: None,
            revision: evaluation.revision,
            expires: evaluation.expires,
        }
    }

    fn extras(&self) -> Option<&Extras> {
        self.extras.as_deref()
    }

    /// The policy's own text, where its reason is not a code.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.extras()?.message.as_deref()
    }

    /// Response headers to append.
    #[must_use]
    pub fn response_headers(&self) -> &[Pair] {
        self.extras().map_or(&[], |extras| &extras.response_headers)
    }

    /// The policy's metadata, where it gave any.
    #[must_use]
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.extras().map(|extras| &extras.metadata)
    }

    /// What the backend must still apply.
    #[must_use]
    pub fn constraints(&self) -> Option<&Arc<str>> {
        self.extras()?.constraints.as_ref()
    }

    /// The engine's own name for the evaluation, where it has one.
    #[must_use]
    pub fn engine_decision_id(&self) -> Option<&Arc<str>> {
        self.extras()?.engine_decision_id.as_ref()
    }
}
