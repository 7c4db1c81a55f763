//! One request's journey, on one page.
//!
//! [`try_now`] is the warm path: it reads memory only, knows no runtime and serves every Check
//! whose token, user context and decision are known. Where it returns nothing, [`decide`] goes
//! the same way and loads what is missing, within the Check's deadline. Both make the same
//! stops in the same order; what lies between two stops is written once, in `Journey`.

pub mod ask;
mod stages;

use std::sync::Arc;
use std::time::Instant;

use self::stages::Stages;
use crate::authn::{Authenticator, Verified};
use crate::clock::{Expiry, Now};
use crate::context::{Contexts, Resolved};
use crate::model::{
    Asker, BodyForm, CacheState, Code, Digest, Door, Fragment, Input, Outcome, Parts, Record,
    Refusal, Request, Secret, Strip, UserContext, VerifiedToken,
};
use crate::policy::{Decided, Decider, Question};
use crate::respond::{Responder, Terms};
use crate::route::{Access, Matched, Table};

/// Everything that a Check decides by, taken once at its start and used to its end. A reload
/// swaps the next one in; what the parts hold on to (pools, caches) outlives it.
pub struct Snapshot {
    /// Which rules apply.
    pub routes: Table,
    /// Credential → verified token.
    pub authenticator: Arc<dyn Authenticator>,
    /// Verified token → user context.
    pub contexts: Arc<dyn Contexts>,
    /// Input → decision; none where no policies are configured, and then no route names one.
    pub decider: Option<Arc<dyn Decider>>,
    /// Decision → outcome.
    pub responder: Responder,
    /// The identity of callers without credential.
    pub anonymous: Fragment,
    /// What the decision API answers by, where there is one.
    pub desk: Option<Arc<ask::Desk>>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Snapshot")
    }
}

/// Decides from memory; `None` where something must be loaded or computed. What is learnt on
/// the way is added to `record`.
#[must_use]
pub fn try_now(
    request: &Request,
    snapshot: &Snapshot,
    now: &Now,
    record: &mut Record,
) -> Option<Outcome> {
    let mut journey = Journey::new(request, snapshot, *now, record);
    match journey.remembered() {
        Ok(end) => Some(journey.end(end)),
        Err(Stop::Refused(refusal)) => Some(journey.refuse(refusal)),
        Err(Stop::Load) => None,
    }
}

/// Decides, loading what is missing until `deadline`.
pub async fn decide(
    request: &Request,
    snapshot: &Snapshot,
    now: Now,
    deadline: Instant,
    record: &mut Record,
) -> Outcome {
    let mut journey = Journey::new(request, snapshot, now, record);
    match journey.load(deadline).await {
        Ok(end) => journey.end(end),
        Err(refusal) => journey.refuse(refusal),
    }
}

/// As [`decide`], and tells what the policy saw (without its time fields; `None` where no policy
/// was asked): for people who write routes and policies.
pub async fn explain(
    request: &Request,
    snapshot: &Snapshot,
    now: Now,
    deadline: Instant,
    record: &mut Record,
) -> (Outcome, Option<String>) {
    let mut journey = Journey::new(request, snapshot, now, record);
    let end = journey.load(deadline).await;
    let asked = end.is_ok() || journey.record.stages.iter().any(|time| time.stage == "policy");
    let context = if asked { journey.asked().ok().flatten() } else { None };
    let question = context.and_then(|(_, context)| journey.question(context).ok());
    let input = question.map(|question| question.input.to_json(None));
    let outcome = match end {
        Ok(end) => journey.end(end),
        Err(refusal) => journey.refuse(refusal),
    };
    (outcome, input)
}

/// Why the warm path stops before its end.
enum Stop {
    Refused(Refusal),
    Load,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What the last stage said.
enum End {
    Decided(Decided),
    /// The route names no policy.
    NoPolicy,
}

struct Journey<'a> {
    request: &'a Request,
    snapshot: &'a Snapshot,
    now: Now,
    record: &'a mut Record,
    matched: Option<Matched<'a, 'a>>,
    credential_came: bool,
    token: Option<Arc<VerifiedToken>>,
    user: Option<Arc<UserContext>>,
}

impl<'a> Journey<'a> {
    fn new(request: &'a Request, snapshot: &'a Snapshot, now: Now, record: &'a mut Record) -> Self {
        Self {
            request,
            snapshot,
            now,
            record,
            matched: None,
            credential_came: false,
            token: None,
            user: None,
        }
    }

    fn remembered(&mut self) -> Result<End, Stop> {
        if let Some(bearer) = self.route()? {
            self.record.enter("authn");
            let demand = &self.matched()?.route().demand;
            let peeked = self.snapshot.authenticator.peek(bearer.expose(), demand, &self.now);
            self.verified(peeked.ok_or(Stop::Load)??);
        }
        if let Some(token) = self.token_to_resolve() {
            self.record.enter("context");
            let peeked = self.snapshot.contexts.peek(&token, &self.now);
            self.resolved(peeked.ok_or(Stop::Load)??);
        }
        self.record.enter("policy");
        let Some((key, _)) = self.asked()? else { return Ok(End::NoPolicy) };
        let decided = self.decider()?.peek(&key, &self.now, self.asker()).ok_or(Stop::Load)?;
        Ok(End::Decided(decided))
    }

    async fn load(&mut self, deadline: Instant) -> Result<End, Refusal> {
        let snapshot = self.snapshot;
        // A warm attempt came as far as it found what it looked for. What it has looked for is
        // not looked for again, so that each cache counts each Check once.
        let [token_seen, user_seen] = [self.record.token_cache, self.record.context_cache]
            .map(|cache| cache != CacheState::None);
        let mut stages = Stages::until(deadline);
        if let Some(timeline) = &mut self.record.timeline {
            timeline.restart();
        }
        let bearer = self.route()?.map(|bearer| Secret::new((*bearer.expose()).to_owned()));
        stages.passed("route");
        if let Some(bearer) = &bearer {
            let demand = self.matched()?.route().demand.clone();
            self.record.enter("authn");
            let resolving = snapshot.authenticator.resolve(bearer, &demand, self.now);
            let verified = stages.within("authn", resolving).await;
            self.record.stages.clone_from(&stages.times);
            self.verified(verified?);
        }
        if let (Some(token), Some(bearer)) = (self.token_to_resolve(), &bearer) {
            self.record.enter("context");
            let known = (!token_seen).then(|| snapshot.contexts.peek(&token, &self.now)).flatten();
            let resolved = if let Some(known) = known {
                known
            } else {
                let resolving = snapshot.contexts.resolve(&token, bearer, self.now);
                let resolved = stages.within("context", resolving).await;
                self.record.stages.clone_from(&stages.times);
                resolved
            };
            self.resolved(resolved?);
        }
        self.record.enter("policy");
        let Some((key, context)) = self.asked()? else { return Ok(End::NoPolicy) };
        let asked = bearer.is_none() || (token_seen && (user_seen || self.user.is_none()));
        if !asked && let Some(decided) = self.decider()?.peek(&key, &self.now, self.asker()) {
            return Ok(End::Decided(decided));
        }
        let question = self.question(context)?;
        let resolving = self.decider()?.resolve(key, question, self.asker());
        let decided = stages.within("policy", resolving).await;
        self.record.stages = stages.times;
        Ok(End::Decided(decided?))
    }

    /// Finds the route and reads the credential that it asks for.
    fn route(&mut self) -> Result<Option<Secret<&'a str>>, Refusal> {
        self.record.enter("route");
        let matched = self.matched.insert(self.snapshot.routes.find(self.request)?);
        self.record.route = Some(Arc::clone(&matched.route().name));
        let credential = matched.credential();
        self.credential_came = match &credential {
            Ok(bearer) => bearer.is_some(),
            Err(refusal) => refusal.code != Code::CredentialMissing,
        };
        credential
    }

    fn matched(&self) -> Result<&Matched<'a, 'a>, Refusal> {
        self.matched.as_ref().ok_or(Refusal::new(Code::InternalError, "no route was matched"))
    }

    fn decider(&self) -> Result<&'a dyn Decider, Refusal> {
        let missing =
            Refusal::new(Code::InternalError, "a route names a policy and none is loaded");
        self.snapshot.decider.as_deref().ok_or(missing)
    }

    fn asker(&self) -> Asker<'_> {
        let route = self.matched.as_ref().map_or("", |matched| &*matched.route().name);
        Asker { token: self.token.as_deref(), route }
    }

    fn verified(&mut self, (token, cache): Verified) {
        self.record.token = Some(Arc::clone(&token));
        self.record.token_cache = cache;
        self.token = Some(token);
    }

    /// The token whose user context the route's policy needs.
    fn token_to_resolve(&self) -> Option<Arc<VerifiedToken>> {
        let route = self.matched.as_ref()?.route();
        let needed = route.policy.is_some() && self.snapshot.contexts.has_users();
        self.token.clone().filter(|_| needed)
    }

    fn resolved(&mut self, (user, cache): Resolved) {
        self.record.context_cache = cache;
        self.user = Some(user);
    }

    /// The key of the question for the route's policy, and the question's `context`; `None` where
    /// the route names no policy.
    fn asked(&mut self) -> Result<Option<(Digest, Box<str>)>, Refusal> {
        let matched = self.matched()?;
        let facts = matched.facts(self.token.as_deref())?;
        let policy = &matched.route().policy;
        self.record.resource = facts.resource;
        self.record.action = facts.action;
        let Some(entry_point) = policy else { return Ok(None) };
        if self.token.is_none() {
            self.user = self.snapshot.contexts.anonymous();
        }
        let (token, anonymous) = (self.token.as_deref(), self.snapshot.anonymous.digest());
        let input = Parts {
            identity: token.map_or(anonymous, VerifiedToken::identity_digest),
            user: self.user.as_deref().map(|user| user.fragment.digest()),
            token: token.map(|token| token.claims.digest()),
            resource: self.record.resource.as_deref(),
            action: self.record.action.as_deref(),
            context: &facts.context,
        };
        let key = self.decider()?.key_of(entry_point, Door::Check, &input);
        Ok(Some((key, facts.context)))
    }

    /// The question whose `context` was told with its key.
    fn question(&self, context: Box<str>) -> Result<Question, Refusal> {
        let route = self.matched()?.route();
        let missing = Refusal::new(Code::InternalError, "the route names no policy");
        let (token, user) = (self.token.as_ref(), self.user.as_deref());
        let anonymous = || self.snapshot.anonymous.clone();
        Ok(Question {
            entry_point: route.policy.clone().ok_or(missing)?,
            door: Door::Check,
            input: Input {
                identity: token.map_or_else(anonymous, VerifiedToken::identity_fragment),
                user: user.map(|user| user.fragment.clone()),
                token: token.map(|token| token.claims.clone()),
                resource: self.record.resource.clone(),
                action: self.record.action.clone(),
                context,
            },
            now: self.now,
            cap: earlier(token.map(|token| token.expires), user.and_then(|user| user.expires)),
            uncached: user.is_some_and(|user| user.stale),
            open: route.open_until.is_some_and(|until| !until.is_past(&self.now)),
        })
    }

    fn end(self, end: End) -> Outcome {
        self.record.enter("respond");
        // What a route strips matters to the backend alone, so to an allow alone.
        let allows = !matches!(&end, End::Decided((decision, _)) if !decision.allow);
        let strip = match self.matched() {
            Ok(matched) if allows => matched.strip(self.token.is_some()),
            Ok(_) => Ok(Strip::default()),
            Err(refusal) => Err(refusal),
        };
        let strip = match strip {
            Ok(strip) => strip,
            Err(refusal) => return self.refuse(refusal),
        };
        let Some(terms) = terms(self.request, self.matched.as_ref(), self.credential_came) else {
            return self.refuse(Refusal::new(Code::InternalError, "no route was matched"));
        };
        let (request, responder) = (self.request, &self.snapshot.responder);
        match end {
            End::Decided((decision, cache)) => {
                self.record.decided(&decision, cache);
                responder.decided(request, terms, &decision, strip)
            }
            End::NoPolicy => {
                let named = self.token.is_some();
                let code = if named { Code::Authenticated } else { Code::PublicRoute };
                responder.allowed(request, terms, code, strip)
            }
        }
    }

    fn refuse(self, refusal: Refusal) -> Outcome {
        self.record.detail = refusal.detail;
        self.record.enter("respond");
        let terms = terms(self.request, self.matched.as_ref(), self.credential_came);
        self.snapshot.responder.refused(refusal, terms)
    }
}

/// What the matched route says of its answers.
fn terms<'m>(
    request: &Request,
    matched: Option<&'m Matched<'_, '_>>,
    credential_came: bool,
) -> Option<Terms<'m>> {
    let route = matched?.route();
    Some(Terms {
        reads_credentials: route.access != Access::Public,
        credential_came,
        realm: &route.realm,
        scope: route.scope.as_ref(),
        body: BodyForm::negotiate(route.errors, request),
        require_headers: &route.require_headers,
    })
}

fn earlier(a: Option<Expiry>, b: Option<Expiry>) -> Option<Expiry> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

/// Whether any part of the answer rests on stale ground.
#[must_use]
pub fn is_stale(record: &Record) -> bool {
    [record.token_cache, record.context_cache, record.decision_cache].contains(&CacheState::Stale)
}
