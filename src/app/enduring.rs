//! What outlives a configuration: a reload builds the next snapshot on it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::config::Config;
use crate::context::Shared;
use crate::policy::{PolicyConfig, PolicyState};
use crate::store::{Invalidations, Store};
use crate::telemetry::Metrics;

/// Clock, metrics, caches, stores, threads and connections of the process.
#[derive(Debug, Clone)]
pub(super) struct Enduring {
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
    /// What ends entries of all caches before their time.
    pub(super) invalidations: Arc<Invalidations>,
    /// User contexts.
    pub(super) shared: Arc<Shared>,
    /// Decisions; made with the first configuration that has policies.
    policy: Arc<Mutex<Option<PolicyState>>>,
}

impl Enduring {
    /// Empty, and as large as `config` says.
    pub(super) fn new(
        config: &Config,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Self {
        let cache = config.user_context.cache.0;
        let invalidations = Invalidations::new(store, clock.clone(), &metrics);
        let shared = Shared::new(cache, Arc::clone(&invalidations), clock.clone(), &metrics);
        Self { clock, metrics, invalidations, shared, policy: Arc::default() }
    }

    /// The decisions' cache and threads.
    pub(super) fn policy(&self, config: &PolicyConfig) -> std::io::Result<PolicyState> {
        let mut policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &*policy {
            return Ok(state.clone());
        }
        let state =
            PolicyState::new(config, &self.metrics, Arc::clone(self.invalidations.generations()))?;
        Ok(policy.insert(state).clone())
    }
}
