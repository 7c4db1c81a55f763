//! Rooms that never name one another, joined: each port's adapter over another room's type.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

use crate::authn::{IssuerState, Verifier};
use crate::check::ask::Desk;
use crate::check::{self, Snapshot};
use crate::clock::Now;
use crate::context::{MapError, Mapper};
use crate::model::{Decision, Digest, Evaluation, Record, Request, Verdict};
use crate::policy::{EvaluationLimits, Finish};
use crate::rego::{EvalError, Limits, Rule};
use crate::respond::Finisher;
use crate::serve::{Arrival, Asks, Decide, Part, Readiness, Step};
use crate::telemetry::{BreakerState, DependencyState, Metrics};

/// The respond stage finishes what the policy stage evaluated.
pub(super) struct Finishing(pub(super) Finisher);

impl Finish for Finishing {
    fn finish(&self, verdict: Verdict, evaluation: Evaluation) -> Decision {
        self.0.finish(verdict, evaluation)
    }

    fn fingerprint(&self) -> Digest {
        self.0.fingerprint()
    }
}

/// A rule of the policies maps a user API's answer to the user context.
pub(super) struct RegoMapper {
    rule: Rule,
    limits: Limits,
    /// Policies and rule: another rule of the same policies makes other contexts.
    revision: String,
}

impl RegoMapper {
    pub(super) fn new(rule: Rule, limits: &EvaluationLimits) -> Self {
        let limits = Limits { time: limits.time.0, memory: limits.memory.as_usize() };
        let revision = format!("{} {}", rule.bundle().revision(), rule.path());
        Self { rule, limits, revision }
    }
}

impl Mapper for RegoMapper {
    fn map(&self, input_json: &str, _: &Now) -> Result<Value, MapError> {
        user_of(self.rule.eval(input_json, self.limits))
    }

    fn map_here(&self, input_json: &str, _: &Now) -> Option<Result<Value, MapError>> {
        self.rule.eval_here(input_json, self.limits).map(user_of)
    }

    fn revision(&self) -> &str {
        &self.revision
    }
}

fn user_of(answer: Result<Option<Value>, EvalError>) -> Result<Value, MapError> {
    match answer {
        Ok(Some(user @ Value::Object(_))) => Ok(user),
        Ok(Some(_)) => Err(MapError::NoObject),
        Ok(None) => Err(MapError::Undefined),
        Err(EvalError::Time | EvalError::Memory) => Err(MapError::Limit),
        Err(EvalError::Starved) => Err(MapError::Starved),
        Err(EvalError::Input(_) | EvalError::Failed(_)) => Err(MapError::Failed),
    }
}

/// The doors ask; the journey decides on the snapshot that is in force when the Check begins.
pub(super) struct Journeys(ArcSwap<Snapshot>);

impl Journeys {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(ArcSwap::new(snapshot))
    }

    /// Checks that begin from now on decide by `snapshot`.
    pub(super) fn swap(&self, snapshot: Arc<Snapshot>) {
        self.0.store(snapshot);
    }
}

impl std::fmt::Debug for Journeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journeys")
    }
}

impl Asks for Journeys {
    fn desk(&self) -> Option<Arc<Desk>> {
        self.0.load().desk.clone()
    }
}

impl Decide for Journeys {
    fn decide<'a>(
        &'a self,
        request: &'a Request,
        arrival: Arrival,
        record: &'a mut Record,
    ) -> Step<'a> {
        let Arrival { now, deadline } = arrival;
        let snapshot = self.0.load();
        if let Some(outcome) = check::try_now(request, &snapshot, &now, record) {
            return Step::Ready(outcome);
        }
        let snapshot = Arc::clone(&snapshot);
        Step::Pending(Box::pin(async move {
            check::decide(request, &snapshot, now, deadline, record).await
        }))
    }
}

/// What is in force, as readiness tells it.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) verifier: Arc<Verifier>,
    pub(super) policies: Option<Arc<str>>,
    pub(super) configuration: Arc<str>,
    /// The exact `iss` of every issuer.
    pub(super) issuers: Arc<[String]>,
    /// The name of every route.
    pub(super) routes: Arc<[String]>,
    pub(super) since: Now,
    /// When and why the last reload failed, if it did.
    pub(super) failed: Option<(Now, Arc<str>)>,
}

/// What readiness waits for: policies (loaded, or the process would not run) and issuers' keys.
/// Dependencies are shown beside them; none is waited for.
#[derive(Debug)]
pub(super) struct Parts {
    told: ArcSwap<Told>,
    metrics: Arc<Metrics>,
}

impl Parts {
    pub(super) fn new(told: Told, metrics: Arc<Metrics>) -> Self {
        Self { told: ArcSwap::from_pointee(told), metrics }
    }

    /// Revisions of the configuration and of the policies in force.
    pub(super) fn revisions(&self) -> (String, String) {
        let told = self.told.load();
        let policies = told.policies.as_ref().map(ToString::to_string);
        (told.configuration.to_string(), policies.unwrap_or_default())
    }

    pub(super) fn has_issuer(&self, issuer: &str) -> bool {
        self.told.load().issuers.iter().any(|known| known == issuer)
    }

    pub(super) fn has_route(&self, name: &str) -> bool {
        self.told.load().routes.iter().any(|known| known == name)
    }

    /// A reload put this in force.
    pub(super) fn swap(&self, told: Told) {
        self.told.store(Arc::new(told));
    }

    /// A reload failed.
    pub(super) fn failed(&self, at: Now, why: String) {
        let failed = Some((at, why.into()));
        self.told.store(Arc::new(Told { failed, ..Told::clone(&self.told.load()) }));
    }
}

impl Readiness for Parts {
    fn parts(&self) -> Vec<Part> {
        let told = self.told.load();
        let policies = told.policies.as_ref().map(|revision| Part {
            name: "policies".into(),
            required: true,
            ready: true,
            state: format!("revision {revision}"),
        });
        let mut state = format!("revision {} since {}", told.configuration, told.since.rfc3339());
        if let Some((at, why)) = &told.failed {
            state = format!("{state}; the reload of {} failed: {why}", at.rfc3339());
        }
        let configuration =
            Part { name: "configuration".into(), required: true, ready: true, state };
        let issuer = |state: IssuerState| Part {
            name: format!("issuer:{}", state.name).into(),
            required: state.required,
            ready: state.keys > 0,
            state: describe(&state),
        };
        let dependency = |state: DependencyState| Part {
            name: format!("dependency:{}", state.name).into(),
            required: false,
            ready: state.breaker == BreakerState::Closed,
            state: fares(&state),
        };
        let issuers = told.verifier.states().into_iter().map(issuer);
        let dependencies = self.metrics.calls.states().into_iter().map(dependency);
        std::iter::once(configuration).chain(policies).chain(issuers).chain(dependencies).collect()
    }
}

fn fares(state: &DependencyState) -> String {
    let (word, since) = (state.breaker.as_str(), state.since.as_secs());
    match state.last_error {
        Some((error, ago)) => {
            let ago = ago.as_secs();
            format!("{word} for {since}s; last failure {ago}s ago: {error}")
        }
        None => format!("{word} for {since}s"),
    }
}

fn describe(state: &IssuerState) -> String {
    let keys = match (state.keys, &state.last_good) {
        (0, _) => "no keys yet".to_owned(),
        (count, Some(at)) => format!("{count} keys, last loaded {}", at.rfc3339()),
        (count, None) => format!("{count} keys"),
    };
    match &state.last_error {
        Some(error) => format!("{keys}; last fetch failed: {error}"),
        None => keys,
    }
}
