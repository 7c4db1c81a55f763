//! How a Check ends, once per Check.

use std::sync::Arc;

use super::config::HeadersConfig;
use super::headers::Managed;
use crate::model::{
    Allow, BodyForm, Challenge, Class, Code, Decision, Deny, Outcome, Reason, Refusal, Request,
    Strip, Unavailable,
};

/// What the route that matched says of its answers.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The route reads credentials: a 401 carries a challenge.
    pub reads_credentials: bool,
    /// A credential came with the request.
    pub credential_came: bool,
    /// Protection space of the challenge.
    pub realm: &'a Arc<str>,
    /// Scopes that the route needs, separated by spaces.
    pub scope: Option<&'a Arc<str>>,
    /// Form of the body of a denial.
    pub body: BodyForm,
    /// An allow without one of these is a denial.
    pub require_headers: &'a [Box<str>],
}

/// Turns decisions and refusals into outcomes.
#[derive(Debug, Clone)]
pub struct Responder {
    managed: Vec<Managed>,
    spellings: Arc<[Arc<str>]>,
    retry_after: u32,
}

impl Responder {
    /// For the declared headers; `retry_after` in seconds is what an unavailable answer says
    /// where no dependency knows better.
    #[must_use]
    pub fn new(config: &HeadersConfig, retry_after: u32) -> Self {
        let managed: Vec<_> = config.managed.iter().map(|name| Managed::new(name)).collect();
        let spellings = managed.iter().flat_map(Managed::others).cloned().collect();
        Self { managed, spellings, retry_after }
    }

    /// The outcome of a policy's decision. `strip` is what the route removes on an
    /// allow.
    #[must_use]
    pub fn decided(
        &self,
        request: &Request,
        terms: Terms<'_>,
        decision: &Arc<Decision>,
        strip: Strip,
    ) -> Outcome {
        if decision.allow {
            let reason = decision.reason.clone();
            return self.allow(request, terms, reason, Some(Arc::clone(decision)), strip);
        }
        let nobody = terms.reads_credentials && !terms.credential_came;
        let status = decision.status.unwrap_or(if nobody { 401 } else { deny_status(decision) });
        let about = match &decision.reason {
            Reason::Core(code) => code.about(),
            Reason::Policy(_) => Code::PolicyDenied.about(),
        };
        Outcome::Deny(Deny {
            challenge: challenge(terms, status, None),
            body: terms.body,
            description: decision.message().unwrap_or(about).into(),
            reason: decision.reason.clone(),
            status,
            decision: Some(Arc::clone(decision)),
        })
    }

    /// An allow that no policy made: `code` says why.
    #[must_use]
    pub fn allowed(
        &self,
        request: &Request,
        terms: Terms<'_>,
        code: Code,
        strip: Strip,
    ) -> Outcome {
        self.allow(request, terms, code.into(), None, strip)
    }

    /// Sets or removes every managed header, and holds the route to what it requires.
    fn allow(
        &self,
        request: &Request,
        terms: Terms<'_>,
        reason: Reason,
        decision: Option<Arc<Decision>>,
        strip: Strip,
    ) -> Outcome {
        let set = decision.as_ref().map(|decision| &*decision.headers);
        let is_set = |name: &str| set.unwrap_or_default().iter().any(|(set, _)| **set == *name);
        if !terms.require_headers.iter().all(|name| is_set(name)) {
            return self.refused(Code::RequiredHeaderMissing.into(), Some(terms));
        }
        let mut remove = Vec::new();
        for managed in &self.managed {
            managed.removals(is_set(managed.name()), request, &mut remove);
        }
        let spellings = Arc::clone(&self.spellings);
        Outcome::Allow(Allow { reason, decision, strip, remove, spellings })
    }

    /// The outcome of a refusal; `terms` where a route had matched already.
    #[must_use]
    pub fn refused(&self, refusal: Refusal, terms: Option<Terms<'_>>) -> Outcome {
        let code = refusal.code;
        let body = terms.map_or(BodyForm::default(), |terms| terms.body);
        let status = match code.class() {
            Class::Deny(status) => status,
            Class::Unavailable => {
                let retry_after = refusal.retry_after.unwrap_or(self.retry_after);
                return Outcome::Unavailable(Unavailable {
                    reason: code.into(),
                    body,
                    retry_after,
                });
            }
            // A stage refuses with an allowing code only by a mistake of ours.
            Class::Allow => 500,
        };
        let challenge = terms.and_then(|terms| challenge(terms, status, oauth_error(code)));
        let (reason, description) = (code.into(), code.about().into());
        Outcome::Deny(Deny { reason, status, challenge, body, description, decision: None })
    }
}

/// Status of a decision that names none: the core's own where it denied.
fn deny_status(decision: &Decision) -> u16 {
    match &decision.reason {
        Reason::Core(code) => match code.class() {
            Class::Deny(status) => status,
            Class::Allow | Class::Unavailable => 403,
        },
        Reason::Policy(_) => 403,
    }
}

/// The challenge of an answer: on every 401, and on a 403 for want of scope (RFC 6750, 3.1).
fn challenge(terms: Terms<'_>, status: u16, error: Option<&'static str>) -> Option<Challenge> {
    let wanted = status == 401 || error.is_some();
    (terms.reads_credentials && wanted).then(|| Challenge {
        realm: Arc::clone(terms.realm),
        error,
        scope: terms.scope.cloned(),
    })
}

/// The `error` of RFC 6750, section 3.1, for a refusal that concerns the credential.
fn oauth_error(code: Code) -> Option<&'static str> {
    match code {
        Code::CredentialMissing => None,
        Code::InsufficientScope => Some("insufficient_scope"),
        Code::CredentialAmbiguous | Code::CredentialMalformed => Some("invalid_request"),
        _ if code.class() == Class::Deny(401) => Some("invalid_token"),
        _ => None,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
