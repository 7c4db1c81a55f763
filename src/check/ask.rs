//! The decision API's journey: from the user context on it is a Check's, only the question comes
//! from an authenticated caller instead of from a request that Envoy saw.
//!
//! | file | what |
//! |---|---|
//! | `config` | the section `api` |
//! | `read` | body → [`Ask`], within its limits; the synthetic `context` |
//! | `caller` | who asks, and what he may do |
//! | `users` | one look-up for each user of a batch |

mod caller;
mod config;
mod read;
mod users;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};

pub use self::caller::{Caller, hash_of_key};
pub use self::config::{ApiConfig, CallerConfig, FieldConfig, May};
pub use self::read::{Ask, MAX_BATCH, Wrong};
pub use self::users::Users;

use self::caller::Callers;
use self::read::Reader;
use super::{Stages, earlier};
use crate::authn::{Authenticator, Verified};
use crate::clock::Now;
use crate::context::Contexts;
use crate::model::{
    Asker, BodyForm, Code, Demand, Door, Fragment, Identity, Input, Outcome, Record, Refusal,
    Request, Secret, Strip, UserContext, VerifiedToken,
};
use crate::policy::{Decided, Decider, Question};
use crate::respond::{Responder, Terms};
use crate::route::{Authorization, authorization};

/// Everything that the decision API answers by.
pub struct Desk {
    authenticator: Arc<dyn Authenticator>,
    contexts: Arc<dyn Contexts>,
    decider: Arc<dyn Decider>,
    responder: Responder,
    reader: Reader,
    callers: Callers,
    demand: Demand,
    entry_point: Arc<str>,
    realm: Arc<str>,
    user_fields: Option<Vec<String>>,
    anonymous: Fragment,
    asserted: Fragment,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

/// What an answer tells beside the decision.
#[derive(Debug)]
pub struct Told {
    /// The user context that was decided on, as far as it is shown.
    pub user: Map<String, Value>,
    /// When it was asked.
    pub at: Now,
}

/// When a question came, and until when it must be answered.
#[derive(Debug, Clone, Copy)]
pub struct When {
    /// Its own time.
    pub now: Now,
    /// Its end.
    pub deadline: Instant,
}

/// Who a question is about.
enum About {
    Nobody,
    Token(Arc<VerifiedToken>, Secret<String>),
    Asserted(Fragment),
}

impl About {
    fn token(&self) -> Option<&VerifiedToken> {
        if let Self::Token(token, _) = self { Some(token) } else { None }
    }
}

impl Desk {
    /// The API of `config`, over the stages of Checks.
    #[must_use]
    pub fn new(
        config: &ApiConfig,
        authenticator: Arc<dyn Authenticator>,
        contexts: Arc<dyn Contexts>,
        decider: Arc<dyn Decider>,
        responder: Responder,
    ) -> Self {
        Self {
            authenticator,
            contexts,
            decider,
            responder,
            reader: Reader::new(config),
            callers: Callers::new(config),
            demand: Demand {
                issuers: config.issuers.iter().map(|name| name.as_str().into()).collect(),
                audiences: config.audiences.iter().map(|name| name.as_str().into()).collect(),
                scopes: Vec::new(),
            },
            entry_point: config.policy.as_str().into(),
            realm: config.realm.as_str().into(),
            user_fields: config.user_fields.clone(),
            anonymous: Fragment::from_json(Identity::ANONYMOUS.json()),
            asserted: Fragment::from_json(Identity::ASSERTED.json()),
        }
    }

    /// Largest bodies in bytes: of one question, and of a batch.
    #[must_use]
    pub fn max_bodies(&self) -> (usize, usize) {
        (self.reader.max_body, self.reader.max_batch_body)
    }

    /// The actions that can be asked for, and the resources where they are listed.
    #[must_use]
    pub fn vocabulary(&self) -> (Vec<&str>, Option<Vec<&str>>) {
        self.reader.vocabulary()
    }

    /// Reads one question.
    ///
    /// # Errors
    /// 400 or 413: not of the documented form, a reserved field, beyond a limit.
    pub fn read(&self, request: &Request) -> Result<Ask, Refusal> {
        self.reader.one(request)
    }

    /// Reads a batch.
    ///
    /// # Errors
    /// As [`Desk::read`], with the question that is wrong.
    pub fn read_batch(&self, request: &Request) -> Result<Vec<Ask>, Wrong> {
        self.reader.batch(request)
    }

    /// Authenticates who asks: an API key, a bearer, or, without either, the one token that every
    /// question brings.
    ///
    /// # Errors
    /// 400 for more than one credential, 401 for none or a bad one; keys that are unavailable.
    pub async fn caller(
        &self,
        request: &Request,
        asks: &[Ask],
        when: When,
        record: &mut Record,
    ) -> Result<Caller, Refusal> {
        let mut keys = request.headers.all("x-api-key");
        let (key, second) = (keys.next(), keys.next());
        let several = Refusal::new(Code::CredentialAmbiguous, "there is more than one credential");
        let bearer = match (authorization(request), key) {
            _ if second.is_some() => return Err(several),
            (Authorization::Absent, Some(key)) => return self.caller_of_key(key, record),
            (Authorization::Several, _) | (_, Some(_)) => return Err(several),
            (Authorization::Bearer(bearer), None) => Secret::new((*bearer.expose()).to_owned()),
            (Authorization::Malformed, None) => {
                let detail = "the bearer token is malformed";
                return Err(Refusal::new(Code::CredentialMalformed, detail));
            }
            (Authorization::Other, None) => {
                return Err(Refusal::new(Code::CredentialMissing, "there is no bearer token"));
            }
            (Authorization::Absent, None) => own(asks)?,
        };
        let mut stages = Stages::until(when.deadline);
        record.enter("authn");
        let (token, _) = stages.within("authn", self.verify(&bearer, when.now)).await?;
        let caller = self.callers.of_token(token, bearer);
        note_caller(&caller, record);
        Ok(caller)
    }

    fn caller_of_key(&self, key: &[u8], record: &mut Record) -> Result<Caller, Refusal> {
        let known = std::str::from_utf8(key).ok().and_then(|key| self.callers.of_key(key));
        let caller =
            known.ok_or(Refusal::new(Code::ApiKeyUnknown, "no caller has this API key"))?;
        note_caller(&caller, record);
        Ok(caller)
    }

    async fn verify(&self, bearer: &Secret<String>, now: Now) -> Result<Verified, Refusal> {
        match self.authenticator.peek(bearer.expose(), &self.demand, &now) {
            Some(known) => known,
            None => self.authenticator.resolve(bearer, &self.demand, now).await,
        }
    }

    /// Answers one question of `caller`; without [`Told`] the outcome is an error.
    pub async fn answer(
        &self,
        caller: &Caller,
        ask: &Ask,
        users: &Users,
        when: When,
        record: &mut Record,
    ) -> (Outcome, Option<Told>) {
        note_caller(caller, record);
        record.resource = Some(ask.resource.clone());
        record.action = Some(ask.action.clone());
        let at = when.now;
        match self.decide(caller, ask, users, when, record).await {
            Ok(((decision, cache), user)) => {
                record.decided(&decision, cache);
                let (request, terms) = (Request::default(), self.terms());
                let outcome = self.responder.decided(&request, terms, &decision, Strip::default());
                (outcome, Some(Told { user: self.shown(user.as_deref()), at }))
            }
            // The user API knows no such person: nobody to allow, and no fault of the caller.
            Err(refusal @ Refusal { code: Code::UnknownUser, .. }) => {
                record.detail = refusal.detail;
                (self.refuse(refusal.into()), Some(Told { user: Map::new(), at }))
            }
            Err(refusal) => {
                record.detail = refusal.detail;
                (self.refuse(refusal.into()), None)
            }
        }
    }

    /// The outcome of a question that is not answered. What is wrong with its form is said, in
    /// static text; what is wrong with a credential is not.
    #[must_use]
    pub fn refuse(&self, wrong: Wrong) -> Outcome {
        let Wrong { refusal, at } = wrong;
        let mut outcome = self.responder.refused(refusal, Some(self.terms()));
        if let Outcome::Deny(deny) = &mut outcome
            && matches!(deny.status, 400 | 403 | 413)
            && !refusal.detail.is_empty()
        {
            let place = at.map(|at| format!("requests[{at}]: ")).unwrap_or_default();
            let about = deny.description.trim_end_matches('.');
            deny.description = format!("{about}: {place}{}.", refusal.detail).into();
        }
        outcome
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            reads_credentials: true,
            credential_came: true,
            realm: &self.realm,
            scope: None,
            body: BodyForm::Message,
            require_headers: &[],
        }
    }

    fn shown(&self, user: Option<&UserContext>) -> Map<String, Value> {
        let json = user.map(|user| user.fragment.json());
        let json = json.as_deref().unwrap_or("{}");
        let mut members: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
        if let Some(fields) = &self.user_fields {
            members.retain(|name, _| fields.contains(name));
        }
        members
    }

    async fn decide(
        &self,
        caller: &Caller,
        ask: &Ask,
        users: &Users,
        when: When,
        record: &mut Record,
    ) -> Result<(Decided, Option<Arc<UserContext>>), Refusal> {
        if ask.vouches && !caller.may.vouch {
            return Err(not_permitted("this caller may give no evidence in `context`"));
        }
        if ask.user.is_some() && !caller.may.assert_user {
            return Err(not_permitted("this caller may not say in `user` who is asked about"));
        }
        let mut stages = Stages::until(when.deadline);
        record.enter("authn");
        let about = stages.within("authn", self.about(caller, ask, when.now, record)).await?;
        let user = match &about {
            About::Nobody => self.contexts.anonymous(),
            About::Asserted(user) => {
                Some(Arc::new(UserContext { fragment: user.clone(), expires: None, stale: false }))
            }
            About::Token(token, bearer) if self.contexts.has_users() => {
                record.enter("context");
                let resolving = users.of(&*self.contexts, token, bearer, when.now);
                let (user, cache) = stages.within("context", resolving).await?;
                record.context_cache = cache;
                Some(user)
            }
            About::Token(..) => None,
        };
        let question = self.question(&about, user.as_deref(), ask, when.now);
        record.enter("policy");
        let key = self.decider.key(&question);
        let asker = Asker { token: about.token(), route: record.route.as_deref().unwrap_or("") };
        let decided = match self.decider.peek(&key, &when.now, asker) {
            Some(decided) => decided,
            None => stages.within("policy", self.decider.resolve(key, question, asker)).await?,
        };
        record.stages = stages.times;
        Ok((decided, user))
    }

    /// Who the question is about. A token that is not the caller's own needs a right; whether it
    /// is his own is what the verified tokens say.
    async fn about(
        &self,
        caller: &Caller,
        ask: &Ask,
        now: Now,
        record: &mut Record,
    ) -> Result<About, Refusal> {
        let own = caller.token.as_ref();
        let (token, bearer) = match (&ask.jwt_token, &ask.user, own) {
            (Some(named), ..) => {
                let (token, cache) = self.verify(named, now).await?;
                let same = own.is_some_and(|(own, _)| {
                    own.grant.issuer == token.grant.issuer && own.subject == token.subject
                });
                if !same && !caller.may.other_token {
                    return Err(not_permitted("this caller may ask with its own token alone"));
                }
                record.token_cache = cache;
                (token, named.clone())
            }
            (None, Some(user), _) => return Ok(About::Asserted(user.clone())),
            (None, None, Some((token, bearer))) => (Arc::clone(token), bearer.clone()),
            (None, None, None) => return Ok(About::Nobody),
        };
        record.token = Some(Arc::clone(&token));
        Ok(About::Token(token, bearer))
    }

    fn question(&self, about: &About, user: Option<&UserContext>, ask: &Ask, now: Now) -> Question {
        let token = about.token();
        let identity = match about {
            About::Nobody => self.anonymous.clone(),
            About::Token(token, _) => token.identity_fragment(),
            About::Asserted(_) => self.asserted.clone(),
        };
        Question {
            entry_point: Arc::clone(&self.entry_point),
            door: Door::Api,
            input: Input {
                identity,
                user: user.map(|user| user.fragment.clone()),
                token: token.map(|token| token.claims.clone()),
                resource: Some(ask.resource.clone()),
                action: Some(ask.action.clone()),
                context: ask.context.clone(),
            },
            now,
            cap: earlier(token.map(|token| token.expires), user.and_then(|user| user.expires)),
            uncached: user.is_some_and(|user| user.stale),
            open: false,
        }
    }
}

const fn not_permitted(detail: &'static str) -> Refusal {
    Refusal::new(Code::CallerNotPermitted, detail)
}

/// The token that every question brings, where no other credential came.
fn own(asks: &[Ask]) -> Result<Secret<String>, Refusal> {
    let mut tokens = asks.iter().map(|ask| ask.jwt_token.as_ref());
    let first = tokens.next().flatten();
    match first {
        Some(token) if tokens.all(|other| other == first) => Ok(token.clone()),
        _ => Err(Refusal::new(Code::CredentialMissing, "there is no credential")),
    }
}

fn note_caller(caller: &Caller, record: &mut Record) {
    record.caller.clone_from(&caller.name);
    record.caller_token = caller.token.as_ref().map(|(token, _)| Arc::clone(token));
}

#[cfg(test)]
mod tests;
