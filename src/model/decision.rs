//! What a policy answered, and the decision made of it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Code, Reason};
use crate::clock::{Expiry, Now};

/// Names one evaluation; shared by every Check that its cached answer serves.
pub type DecisionId = Arc<str>;

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
/// cache holds and nothing in it belongs to a single Check.
#[derive(Debug)]
pub struct Decision {
    /// Names this evaluation.
    pub id: DecisionId,
    /// Whether the request may pass.
    pub allow: bool,
    /// Why.
    pub reason: Reason,
    /// The policy's own text, bounded, where its reason is not a code.
    pub message: Option<Box<str>>,
    /// The policy's own status of a denial.
    pub status: Option<u16>,
    /// Request headers to set: declared managed names, values that are safe to send.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Response headers to append.
    pub response_headers: Vec<(Box<str>, Box<str>)>,
    /// The policy's metadata.
    pub metadata: Map<String, Value>,
    /// What the backend must still apply, as compact JSON in printable ASCII; shared with the
    /// record of every Check it answers.
    pub constraints: Option<Arc<str>>,
    /// Revision of the policies that answered.
    pub revision: Arc<str>,
    /// The engine's own name for the evaluation, where it has one (an OPA server's `decision_id`).
    pub engine_decision_id: Option<Arc<str>>,
    /// When it was evaluated: the time of the Check that asked.
    pub decided_at: Now,
    /// Until when it may answer again; `None` is not cached.
    pub expires: Option<Expiry>,
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
            message: None,
            status: None,
            headers: Vec::new(),
            response_headers: Vec::new(),
            metadata: Map::new(),
            constraints: None,
            revision: evaluation.revision,
            engine_decision_id: None,
            decided_at: evaluation.decided_at,
            expires: evaluation.expires,
        }
    }
}
