//! What the control door operates.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::adapters::Parts;
use super::enduring::Enduring;
use super::reload::Ask;
use crate::model::BoxFuture;
use crate::serve::control::messages::{Cache, ReloadResponse};
use crate::serve::control::{Invalidation, Operate, State};
use crate::store::Target;
use crate::telemetry::LogHandle;

/// The running process, as the control door knows it.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) enduring: Enduring,
    pub(super) parts: Arc<Parts>,
    pub(super) reloads: mpsc::Sender<Ask>,
    pub(super) log: LogHandle,
    pub(super) began: Instant,
}

impl Operate for Operator {
    fn invalidate(&self, what: Invalidation) -> BoxFuture<'_, Result<u64, &'static str>> {
        Box::pin(async move {
            let target = match what {
                Invalidation::User { issuer, subject } => {
                    let told = self.enduring.shared.invalidate(&issuer, &subject).await;
                    return told.map_err(|error| error.0);
                }
                Invalidation::Token(hash) => Target::Token(hash),
                Invalidation::Issuer(issuer) => Target::Issuer(issuer),
                Invalidation::Route(route) => Target::Route(route),
                Invalidation::Everything => Target::Everything,
            };
            let told = self.enduring.invalidations.invalidate(&target, &[]).await;
            told.map_err(|error| error.0)
        })
    }

    fn knows(&self, what: &Invalidation) -> bool {
        match what {
            Invalidation::User { issuer, .. } | Invalidation::Issuer(issuer) => {
                self.parts.has_issuer(issuer)
            }
            Invalidation::Route(route) => self.parts.has_route(route),
            Invalidation::Token(_) | Invalidation::Everything => true,
        }
    }

    fn reload(&self) -> BoxFuture<'_, ReloadResponse> {
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            // Whoever reloads ends with the process alone.
            let asked = self.reloads.send(tell).await;
            let ending = || ReloadResponse {
                problems: vec!["the process is ending".to_owned()],
                ..ReloadResponse::default()
            };
            match asked {
                Ok(()) => told.await.unwrap_or_else(|_| ending()),
                Err(_) => ending(),
            }
        })
    }

    fn state(&self) -> State {
        let standing = self.enduring.invalidations.standing();
        let (configuration, policies) = self.parts.revisions();
        let caches = self.enduring.metrics.caches().into_iter();
        let cache = |(name, entries, bytes): (&str, u64, u64)| Cache {
            name: name.to_owned(),
            entries,
            bytes,
        };
        State {
            uptime_seconds: self.began.elapsed().as_secs(),
            configuration,
            policies,
            caches: caches.map(cache).collect(),
            generation: standing.generation,
            subscribed: standing.subscribed,
            log_level: self.log.filter(),
        }
    }

    fn log(&self, filter: &str) -> Result<String, String> {
        self.log.set(filter)
    }
}
