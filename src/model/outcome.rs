//! How a Check ends, and what is told of it.

use std::sync::Arc;
use std::time::Duration;

use super::{Decision, Door, Reason, VerifiedToken};

/// How a Check ends. Doors turn it into their wire format totally; there is no fourth way.
#[derive(Debug)]
pub enum Outcome {
    /// Envoy forwards the request.
    Allow(Allow),
    /// Envoy answers the client with this.
    Deny(Deny),
    /// It could not be decided; an error in Envoy's eyes.
    Unavailable(Unavailable),
}

/// An allow with everything Envoy is to change about the request and the response.
#[derive(Debug)]
pub struct Allow {
    /// Why.
    pub reason: Reason,
    /// The decision, where a policy made one: its headers are set, its response headers appended.
    pub decision: Option<Arc<Decision>>,
    /// What the route strips.
    pub strip: Strip,
    /// Managed names that are not set, and spellings of managed names that this request shows.
    pub remove: Vec<Arc<str>>,
    /// The other spellings of every managed name, which go whatever the request shows.
    pub spellings: Arc<[Arc<str>]>,
}

impl Allow {
    /// Every request header to remove; none of them is one that is set.
    pub fn removals(&self) -> impl Iterator<Item = &str> {
        let strip = self.strip.headers.iter().chain(&self.strip.spellings).map(|name| &**name);
        strip.chain(self.remove.iter().chain(&*self.spellings).map(|name| &**name))
    }
}

/// What a route removes from an allowed request, managed headers apart.
#[derive(Debug, Clone, Default)]
pub struct Strip {
    /// Headers that are removed whatever the request shows; shared, so that the common case
    /// allocates nothing.
    pub headers: Arc<[Box<str>]>,
    /// Further spellings with `_` for `-` that this request carries.
    pub spellings: Vec<Box<str>>,
    /// Query parameters.
    pub query: Vec<Box<str>>,
}

/// A denial.
#[derive(Debug)]
pub struct Deny {
    /// Why.
    pub reason: Reason,
    /// 400–599.
    pub status: u16,
    /// `WWW-Authenticate`, where the route reads credentials and the answer is 401 or 403.
    pub challenge: Option<Challenge>,
    /// The form of the body.
    pub body: BodyForm,
    /// One sentence that holds no request text.
    pub description: Box<str>,
    /// The decision, where a policy made it; its response headers are sent.
    pub decision: Option<Arc<Decision>>,
}

/// It could not be decided: 503 with `Retry-After` where Envoy can.
#[derive(Debug)]
pub struct Unavailable {
    /// Why.
    pub reason: Reason,
    /// The form of the body.
    pub body: BodyForm,
    /// Seconds for `Retry-After`.
    pub retry_after: u32,
}

/// `WWW-Authenticate: Bearer …` (RFC 6750, section 3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Challenge {
    /// The protection space.
    pub realm: Arc<str>,
    /// `invalid_token`, `invalid_request` or `insufficient_scope`; none where no credential came.
    pub error: Option<&'static str>,
    /// Scopes that the route needs, separated by spaces.
    pub scope: Option<Arc<str>>,
}

/// Form of a denial's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyForm {
    /// `{"error","error_description","reason","request_id"}`, named after RFC 6750.
    #[default]
    Oauth,
    /// `{"error","message"}`.
    Message,
    /// A static page, for browsers; only by negotiation.
    #[serde(skip)]
    Html,
    /// A gRPC status, for gRPC callers; only by negotiation.
    #[serde(skip)]
    Grpc,
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheState {
    /// The stage did not run.
    #[default]
    None,
    /// From memory.
    Hit,
    /// Loaded or computed for this Check, or by another Check that it waited for.
    Miss,
    /// From the shared store.
    Store,
    /// Past its lifetime, because a dependency failed.
    Stale,
    /// Nobody decided: the policy engine failed, and the route passes everybody until a date.
    Open,
}

impl CacheState {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Store => "store",
            Self::Stale => "stale",
            Self::Open => "open",
        }
    }

    /// What an answer is marked with that rests on this, where it is marked.
    #[must_use]
    pub fn mark(self) -> Option<&'static str> {
        matches!(self, Self::Stale | Self::Open).then(|| self.as_str())
    }
}

impl Record {
    /// Issuer of the verified identity.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.grant.issuer)
    }

    /// Subject of the verified identity; audit hashes it.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.subject)
    }

    /// Client of the verified identity.
    #[must_use]
    pub fn client_id(&self) -> Option<&str> {
        self.token.as_ref()?.grant.client_id.as_deref()
    }

    /// The evaluation that decided.
    #[must_use]
    pub fn decision_id(&self) -> Option<&str> {
        self.decision.as_ref().map(|decision| &*decision.id)
    }

    /// The engine's own name for that evaluation (an OPA server's `decision_id`).
    #[must_use]
    pub fn engine_decision_id(&self) -> Option<&str> {
        self.decision.as_ref()?.engine_decision_id().map(|id| &**id)
    }

    /// Revision of the policies.
    #[must_use]
    pub fn revision(&self) -> Option<&str> {
        self.decision.as_ref().map(|decision| &*decision.revision)
    }

    /// The policy's constraints for audit, as compact JSON in printable ASCII.
    #[must_use]
    pub fn constraints(&self) -> Option<&str> {
        self.decision.as_ref()?.constraints().map(|text| &**text)
    }

    /// A stage begins; costs a branch where the Check is not traced.
    pub fn enter(&mut self, stage: &'static str) {
        if let Some(timeline) = &mut self.timeline {
            timeline.enter(stage);
        }
    }

    /// Notes the decision that answers.
    pub fn decided(&mut self, decision: &Arc<Decision>, cache: CacheState) {
        self.decision_cache = cache;
        self.decision = Some(Arc::clone(decision));
    }

    /// What the answer rests on, by part.
    #[must_use]
    pub fn grounds(&self) -> [(&'static str, CacheState); 3] {
        let context = ("context", self.context_cache);
        [("token", self.token_cache), context, ("decision", self.decision_cache)]
    }

    /// `stale` or `open` where a part of the answer is; `open` goes before `stale`.
    #[must_use]
    pub fn mark(&self) -> Option<&'static str> {
        self.decision_cache
            .mark()
            .or_else(|| self.context_cache.mark())
            .or_else(|| self.token_cache.mark())
    }
}

/// How long one stage took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTime {
    /// `route`, `authn`, `context`, `policy` or `respond`.
    pub stage: &'static str,
    /// Elapsed time.
    pub took: Duration,
}

/// What is known of one Check beside its outcome: for audit, metrics, access logs and `decide`.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// This Check's own id.
    pub check_id: Box<str>,
    /// Which kind of listener it came through.
    pub door: Door,
    /// Configured name of the decision API's caller, where it has one.
    pub caller: Option<Arc<str>>,
    /// Token of the decision API's caller, where it came with one; audit hashes whom it names.
    pub caller_token: Option<Arc<VerifiedToken>>,
    /// Envoy's request id, if it matches `[A-Za-z0-9._-]{1,128}`.
    pub request_id: Option<Box<str>>,
    /// The route that matched.
    pub route: Option<Arc<str>>,
    /// The verified token, whose identity is told of.
    pub token: Option<Arc<VerifiedToken>>,
    /// The decision that answers.
    pub decision: Option<Arc<Decision>>,
    /// What the route says is asked for.
    pub resource: Option<Box<str>>,
    /// What the route says is to be done.
    pub action: Option<Box<str>>,
    /// HTTP method as sent.
    pub method: Box<str>,
    /// Path without query, as sent, bounded.
    pub path: Box<str>,
    /// Host as sent, bounded.
    pub host: Box<str>,
    /// Address of the client, as Envoy says.
    pub source: Box<str>,
    /// What exactly led to a refusal; static text.
    pub detail: &'static str,
    /// Where the token's verification came from.
    pub token_cache: CacheState,
    /// Where the user context came from.
    pub context_cache: CacheState,
    /// Where the decision came from.
    pub decision_cache: CacheState,
    /// Time per stage, in order; the asynchronous journey only.
    pub stages: Vec<StageTime>,
    /// When each stage began, where the Check is traced.
    pub timeline: Option<Box<super::Timeline>>,
}
