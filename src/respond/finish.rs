//! Verdict → decision, once per evaluation.

use std::sync::Arc;

use super::config::HeadersConfig;
use super::document;
use super::headers::{encode_value, is_reserved, is_token, join};
use crate::model::{
    Code, Decision, Digest, Evaluation, Extras, Hasher, HeaderValue, Pairs, Reason, Verdict,
};
use crate::store::Alike;

/// Longest text that a policy may add to an answer, in characters.
const MAX_MESSAGE: usize = 256;

/// Stamps, serialises and checks what a policy wants to send.
#[derive(Debug, Clone)]
pub struct Finisher {
    managed: Vec<Arc<str>>,
    max_value: usize,
    /// Names of response headers and policies' reasons: a few, in many decisions.
    names: Arc<Alike<str>>,
}

impl Finisher {
    /// For the declared headers.
    #[must_use]
    pub fn new(config: &HeadersConfig) -> Self {
        Self {
            managed: config.managed.iter().map(|name| name.as_str().into()).collect(),
            max_value: config.max_value.as_usize(),
            names: Arc::default(),
        }
    }

    /// A hash of what finishing depends on: decisions finished by other rules are others.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let mut hasher = Hasher::new("finish").part(&self.max_value.to_le_bytes());
        self.managed.iter().for_each(|name| hasher.push(name.as_bytes()));
        hasher.finish()
    }

    /// The decision made of `verdict`. Where its headers break a rule it becomes a denial that
    /// says which.
    #[must_use]
    pub fn finish(&self, verdict: Verdict, evaluation: Evaluation) -> Decision {
        match self.headers(&verdict, &evaluation) {
            Ok((headers, response_headers)) => {
                let (reason, message) = self.reason(&verdict);
                let constraints = verdict.constraints.as_ref();
                let extras = Extras {
                    message,
                    response_headers,
                    metadata: verdict.metadata,
                    constraints: constraints.map(|value| document::text(value).into()),
                    engine_decision_id: None,
                };
                Decision {
                    id: evaluation.id,
                    allow: verdict.allow,
                    reason,
                    status: verdict.status,
                    headers,
                    extras: extras.kept(),
                    revision: evaluation.revision,
                    expires: evaluation.expires,
                }
            }
            // Its lifetime is the verdict's: the same input would break the same rule again.
            Err(code) => Decision::denied(code, evaluation),
        }
    }

    fn headers(&self, verdict: &Verdict, evaluation: &Evaluation) -> Result<(Pairs, Pairs), Code> {
        let mut headers = Vec::new();
        // What a denial would have set for the backend is nobody's business.
        for (name, value) in verdict.headers.iter().filter(|_| verdict.allow) {
            let managed = self.managed.iter().find(|managed| ***managed == **name);
            let managed = managed.ok_or(Code::HeaderNotDeclared)?;
            headers.push((Arc::clone(managed), self.value(value, evaluation)?));
        }
        let mut response = Vec::new();
        for (name, value) in &verdict.response_headers {
            if !is_token(name) || is_reserved(name) {
                return Err(Code::HeaderNotDeclared);
            }
            match value {
                HeaderValue::List(elements) => {
                    for element in elements {
                        let value = self.value(&HeaderValue::Text(element.clone()), evaluation)?;
                        response.push((self.names.of(name.as_str()), value));
                    }
                }
                one => {
                    response.push((self.names.of(name.as_str()), self.value(one, evaluation)?));
                }
            }
        }
        Ok((headers.into_iter().collect(), response.into_iter().collect()))
    }

    fn value(&self, value: &HeaderValue, evaluation: &Evaluation) -> Result<Box<str>, Code> {
        let text = match value {
            HeaderValue::Text(text) => encode_value(text)?,
            HeaderValue::List(elements) => join(elements)?,
            HeaderValue::Document { document, stamps } => document::render(
                document,
                stamps,
                &evaluation.id,
                &evaluation.decided_at.rfc3339(),
            )?,
        };
        if text.len() > self.max_value {
            return Err(Code::HeaderTooLarge);
        }
        Ok(text.into_boxed_str())
    }

    /// The verdict's reason as a code, and its text where it is none.
    fn reason(&self, verdict: &Verdict) -> (Reason, Option<Box<str>>) {
        let Some(text) = &verdict.reason else {
            let code = if verdict.allow { Code::Allowed } else { Code::PolicyDenied };
            return (code.into(), None);
        };
        if Reason::is_code(text) {
            (Reason::Policy(self.names.of(text.as_str())), None)
        } else {
            (Code::PolicyReason.into(), Some(message(text)))
        }
    }
}

/// A policy's text, bounded and free of control characters.
fn message(text: &str) -> Box<str> {
    let safe = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_MESSAGE).map(safe).collect::<String>().into()
}
