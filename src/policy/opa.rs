//! Decides by asking an OPA server.
//!
//! Where it fails, the last decision may serve (`stale`), and a route may pass everybody (`open`).
//! Both are marked. A decision is kept only where the policy says for how long (`ttl`) or the configuration says
//! that the policies are `pure`. Its key has the revision of OPA's bundles as the last answer
//! told it; while decisions come from memory, the revision is asked for once per `clock_ttl`, so
//! that policies that were replaced are noticed.

mod call;
mod config;
mod inner;
mod stale;
mod telling;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;

use self::call::{Failure, Server};
pub use self::config::{ClientCertificate, OnOpaFailure, OpaConfig};
use self::inner::{Current, Entry, Inner};
pub(super) use self::stale::State;
use super::terms::Terms;
use super::{Decided, Decider, Finish, PolicyConfig, PolicyState, Question};
use crate::clock::Now;
use crate::model::{
    Asker, BoxFuture, CacheState, Code, Digest, Door, Hasher, Parts, Problem, Refusal,
};
use crate::store::Places;
use crate::telemetry::Metrics;

/// An OPA server as a [`Decider`].
#[derive(Clone)]
pub struct Opa(Arc<Inner>);

impl std::fmt::Debug for Opa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Opa").field(&self.0.server).finish()
    }
}

impl Opa {
    /// Entry points of `config` on its OPA server; connects to nothing yet. Relative paths start
    /// at `base`.
    ///
    /// # Errors
    /// Certificates or keys that cannot be read or used.
    pub fn new(
        config: &PolicyConfig,
        finish: &Arc<dyn Finish>,
        state: PolicyState,
        metrics: &Arc<Metrics>,
        base: &Path,
    ) -> Result<Self, Vec<Problem>> {
        let Some(opa) = &config.opa else {
            let fix = "add the section with OPA's `url`";
            return Err(vec![Problem::new("/opa", "is missing", fix)]);
        };
        let server = Server::new(opa, &state.opa.clients, metrics, base)
            .map_err(|problem| vec![problem.under("/opa")])?;
        let telling = state.opa.telling(&opa.url);
        let entries: HashMap<Arc<str>, Entry> = config
            .entry_points
            .iter()
            .map(|point| {
                let terms = Terms::new(config, point.reads_time, Arc::clone(finish));
                let version = Hasher::new("opa entry")
                    .part(opa.url.as_bytes())
                    .part(point.rule.as_bytes())
                    .part(&[u8::from(opa.pure)])
                    .part(terms.fingerprint().as_bytes());
                let version = version.finish().to_hex().into();
                let path = point.rule.strip_prefix("data.").unwrap_or_default().replace('.', "/");
                let (rule, path) = (point.rule.as_str().into(), path.into());
                (point.name.as_str().into(), Entry { rule, path, version, terms })
            })
            .collect();
        let current = ArcSwap::from_pointee(Current::of(&entries, telling.revision()));
        Ok(Self(Arc::new(Inner {
            entries,
            server,
            state,
            telling,
            current,
            clock_ttl: config.clock_ttl.0,
            pure: opa.pure,
            stale_for: opa.stale_for(),
        })))
    }
}

impl Decider for Opa {
    fn key_of(&self, entry_point: &str, door: Door, input: &Parts<'_>) -> Digest {
        self.0.key(entry_point, door, input)
    }

    fn peek(&self, key: &Digest, now: &Now, asker: Asker<'_>) -> Option<Decided> {
        let decision = self.0.state.get(key, now, || Places::of(asker))?;
        if self.0.is_due(now)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(Arc::clone(&self.0).probe(*now));
        }
        Some((decision, CacheState::Hit))
    }

    fn resolve(
        &self,
        key: Digest,
        question: Question,
        asker: Asker<'_>,
    ) -> BoxFuture<'_, Result<Decided, Refusal>> {
        let places = Places::of(asker);
        Box::pin(async move {
            let inner = &self.0;
            let key = match inner.state.known(key, &question, places) {
                ControlFlow::Break(known) => return Ok(known),
                ControlFlow::Continue(key) => key,
            };
            let opens = question.open.then(|| question.clone());
            // OPA may know more than the input says: who asks after an invalidation does not wait
            // for an answer from before it.
            let generation = inner.state.generations.last(places);
            let load = || Arc::clone(inner).decide(question, places);
            let (_, decided) = inner.state.opa.flight.join((key, generation), load).await;
            let panicked = Refusal::new(Code::InternalError, "the evaluation panicked");
            let failure = match decided.unwrap_or(Err(Failure::ours(panicked))) {
                Ok(decided) => return Ok(decided),
                Err(failure) => failure,
            };
            let opened = opens.filter(|_| failure.own).and_then(|question| inner.open(&question));
            opened.ok_or(failure.refusal)
        })
    }
}
