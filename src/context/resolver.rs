//! Resolves user contexts: memory, then store, then user API.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::ask::Ask;
use super::config::{ContextConfig, Source};
use super::load::{Job, Lifetimes, Loaded};
use super::mapper::Mapper;
use super::profile::Profile;
use super::record::KeyTemplate;
use super::shared::{LoadKey, Shared};
use super::user_api::{Api, Failure};
use super::view::{UNKNOWN, View};
use super::{Contexts, Resolved, claims};
use crate::clock::Now;
use crate::model::{
    BoxFuture, CacheState, Code, Digest, Fragment, Problem, Refusal, Secret, UserContext,
    VerifiedToken,
};
use crate::telemetry::{Metrics, trace};

/// Rounds in which a waiter lets others' bearers go first, before it asks with its own alone.
const SHARED_ROUNDS: u32 = 2;

const PANICKED: Refusal =
    Refusal::new(Code::InternalError, "the load of the user context ended abnormally");

/// The user contexts of one configuration, over a [`Shared`] that outlives it.
pub struct Resolver {
    shared: Arc<Shared>,
    view: Arc<View>,
    lifetimes: Lifetimes,
    keys: Arc<KeyTemplate>,
    origin: Origin,
    anonymous: Option<Arc<UserContext>>,
}

enum Origin {
    Api(Arc<Api>),
    Claims,
    Nowhere,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

fn in_memory(stale: bool) -> CacheState {
    if stale { CacheState::Stale } else { CacheState::Hit }
}

fn constant(value: &Value) -> Arc<UserContext> {
    Arc::new(UserContext { fragment: Fragment::new(value), expires: None, stale: false })
}

impl Resolver {
    /// The contexts that `config` describes. `mapper` evaluates `config.mapping` and is given
    /// exactly where that is; `base` is the folder that relative paths start from. Connects to
    /// nothing.
    ///
    /// # Errors
    /// All that is wrong with the section.
    pub fn new(
        config: &ContextConfig,
        mapper: Option<Arc<dyn Mapper>>,
        shared: Arc<Shared>,
        metrics: Arc<Metrics>,
        base: &Path,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = config.problems();
        if config.mapping.is_some() != mapper.is_some() {
            let fix = "name a rule of the policies that are loaded";
            problems.push(Problem::new("/mapping", "has no rule to run", fix));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let (origin, source) = match (config.source(), &config.user_api) {
            (Source::UserApi, Some(api)) => {
                let under = |problems: Vec<Problem>| {
                    problems.into_iter().map(|problem| problem.under("/user_api")).collect()
                };
                let api = Api::new(api, &shared.clients, metrics, base)
                    .map_err(|p| -> Vec<Problem> { under(p) })?;
                let source = api.asker.digest();
                (Origin::Api(Arc::new(api)), source)
            }
            (Source::Claims, _) => (Origin::Claims, Digest::of("source", b"claims")),
            _ => (Origin::Nowhere, Digest::of("source", b"none")),
        };
        let anonymous = config.anonymous.as_ref().map(|user| constant(&user.clone().into()));
        let view = Arc::new(View::new(&shared, &source, mapper));
        let lifetimes = Lifetimes::new(config);
        shared.invalidations.stays(lifetimes.longest());
        let keys = Arc::new(config.keys().unwrap_or_default());
        shared.make_keys_by(Arc::clone(&keys));
        Ok(Self { shared, view, lifetimes, keys, origin, anonymous })
    }

    async fn ask_api(
        &self,
        api: &Arc<Api>,
        token: &Arc<VerifiedToken>,
        bearer: &Secret<String>,
        now: &Now,
    ) -> Result<Resolved, Refusal> {
        let ask = api.asker.ask(token)?;
        let job = |instead_of: Option<Arc<Profile>>| Job {
            shared: Arc::clone(&self.shared),
            api: Arc::clone(api),
            view: Arc::clone(&self.view),
            lifetimes: self.lifetimes,
            keys: Arc::clone(&self.keys),
            ask: ask.clone(),
            token: Arc::clone(token),
            bearer: bearer.clone(),
            instead_of,
        };
        let mut instead_of = None;
        if let Some((profile, stale)) = self.kept(&ask, now) {
            if let Ok(outcome) = self.view.of_profile(&self.shared, token, &profile, stale).await {
                if profile.state.take_attempt(now) {
                    self.refresh(&ask, job(Some(profile)));
                }
                return outcome.map(|context| (context, in_memory(stale)));
            }
            instead_of = Some(profile);
        }
        for round in 0..=SHARED_ROUNDS {
            let own = (round == SHARED_ROUNDS).then_some(token.hash);
            let key = self.load_key(&ask, own);
            let load = || job(instead_of.clone()).run();
            let (led, loaded) = self.shared.loads.join(key, load).await;
            match loaded {
                None => return Err(PANICKED),
                Some(Loaded::Found(profile, state)) if profile.fits(&ask) => {
                    return self.found(token, &profile, state).await;
                }
                Some(Loaded::Refused { by, refusal })
                    if led || by == token.hash || !api.asks_as_caller() =>
                {
                    return Err(refusal);
                }
                // Another's bearer was refused, or another's claims named another person.
                Some(Loaded::Found(..) | Loaded::Refused { .. }) => {}
                Some(Loaded::Failed(failure)) => return self.failed(&ask, token, failure).await,
            }
        }
        Err(Failure::new("the user API answers each bearer of this user differently").into())
    }

    fn load_key(&self, ask: &Ask, own: Option<Digest>) -> LoadKey {
        let generation = self.shared.generation(ask.places);
        LoadKey { key: ask.key, asked: ask.asked, generation, own }
    }

    /// The profile in memory that answers `ask`, and whether it does so past its end.
    fn kept(&self, ask: &Ask, now: &Now) -> Option<(Arc<Profile>, bool)> {
        if let Some(profile) = self.shared.fresh(&ask.key, now) {
            return profile.fits(ask).then_some((profile, false));
        }
        let last = self.shared.last(&ask.key).filter(|last| last.fits(ask))?;
        last.state.may_serve_stale(now).then_some((last, true))
    }

    /// Fetches again beside the Check that brought the bearer.
    fn refresh(&self, ask: &Ask, job: Job) {
        let (key, shared) = (self.load_key(ask, None), Arc::clone(&self.shared));
        tokio::spawn(trace::carry(async move { shared.loads.join(key, || job.run()).await }));
    }

    async fn found(
        &self,
        token: &Arc<VerifiedToken>,
        profile: &Arc<Profile>,
        state: CacheState,
    ) -> Result<Resolved, Refusal> {
        match self.view.of_profile(&self.shared, token, profile, false).await {
            Ok(outcome) => outcome.map(|context| (context, state)),
            Err(error) => Err(Failure::new(error.as_str()).into()),
        }
    }

    /// The last good context if it may serve all the same; it never outlives the token.
    async fn failed(
        &self,
        ask: &Ask,
        token: &Arc<VerifiedToken>,
        failure: Failure,
    ) -> Result<Resolved, Refusal> {
        let now = self.shared.clock.now();
        // The look-up was counted before the load.
        let last = self.shared.last(&ask.key).filter(|last| last.fits(ask));
        let serves = |profile: &Arc<Profile>| {
            !profile.expires.is_past(&now) || profile.state.may_serve_stale(&now)
        };
        let Some(profile) = last.filter(serves) else { return Err(failure.into()) };
        let stale = profile.expires.is_past(&now);
        if token.expires.is_past(&now) {
            return Err(Refusal::new(Code::TokenExpired, "the token expired while waiting"));
        }
        match self.view.of_profile(&self.shared, token, &profile, stale).await {
            Ok(outcome) => outcome.map(|context| (context, in_memory(stale))),
            Err(_) => Err(failure.into()),
        }
    }
}

impl Contexts for Resolver {
    fn anonymous(&self) -> Option<Arc<UserContext>> {
        self.anonymous.clone()
    }

    fn has_users(&self) -> bool {
        !matches!(self.origin, Origin::Nowhere)
    }

    fn peek(&self, token: &Arc<VerifiedToken>, now: &Now) -> Option<Result<Resolved, Refusal>> {
        let mapped = self.shared.context(token, now)?;
        // A profile that is due is fetched again by a Check that brings its bearer.
        let due = mapped.profile.as_ref().is_some_and(|state| state.is_due(now));
        if mapped.view != self.view.number || due {
            return None;
        }
        let state = in_memory(mapped.stale);
        Some(mapped.user.map(|context| (context, state)).ok_or(UNKNOWN))
    }

    fn resolve<'a>(
        &'a self,
        token: &'a Arc<VerifiedToken>,
        bearer: &'a Secret<String>,
        now: Now,
    ) -> BoxFuture<'a, Result<Resolved, Refusal>> {
        Box::pin(async move {
            match &self.origin {
                Origin::Api(api) => self.ask_api(api, token, bearer, &now).await,
                Origin::Claims => {
                    let made =
                        claims::resolve(&self.shared, &self.view, &self.lifetimes, token, &now);
                    made.await.map(|context| (context, CacheState::Miss))
                }
                // The journey asks where there are users only.
                Origin::Nowhere => Err(Refusal::new(Code::InternalError, "there are no users")),
            }
        })
    }
}
