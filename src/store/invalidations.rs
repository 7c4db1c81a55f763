//! Invalidations, told to every replica that shares the store.
//!
//! Who invalidates raises generations in the store, then deletes, then publishes. Whoever listens
//! raises its own generations in memory; what was kept by older ones serves no more. A message
//! may be lost: each names the one before it, and on every subscription, on every gap and every
//! few seconds the head is read again, so that what was missed takes effect.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::head::{Head, Raised};
use super::{Generations, Store, StoreError, Storing, Subscriber, Target};
use crate::clock::Clock;
use crate::model::{BoxFuture, Digest};
use crate::telemetry::{InvalidationMetrics, Metrics};

/// What the keys of generations begin with.
pub(super) const KEYS: &str = "generation";
const HEAD: &str = "generations";
const CHANNEL: &str = "invalidations";
/// How long the head stays after the last invalidation. Where it is gone, everything counts as
/// invalidated once.
const HEAD_STAYS: Duration = Duration::from_hours(30 * 24);
/// How often the head is read, whatever messages come.
const REREAD: Duration = Duration::from_secs(5);
/// Another's clock may be so much behind ours.
const SKEW: Duration = Duration::from_mins(1);
/// Attempts to raise the head while others raise it too.
const TRIES: u32 = 16;
const LEAST_STAY: u64 = 3600;

const UNKNOWN: u8 = 0;
const UP: u8 = 1;
const DOWN: u8 = 2;

/// What replicas tell one another.
#[derive(Serialize, Deserialize)]
struct Message {
    /// Which process tells it.
    from: u64,
    /// Generation of the invalidation before.
    after: u64,
    raised: Raised,
}

/// How a process stands with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether messages come.
    pub subscribed: bool,
    /// Generation of the last invalidation that is known, nanoseconds since the Unix epoch or
    /// a little more; zero for none.
    pub generation: u64,
}

/// Invalidations of one process and of those that share its store.
pub struct Invalidations {
    store: Arc<dyn Store>,
    generations: Arc<Generations>,
    clock: Clock,
    metrics: InvalidationMetrics,
    me: u64,
    began: u64,
    known: Mutex<Option<Head>>,
    subscription: AtomicU8,
    /// Longest that anything is kept in the store, in seconds.
    longest: AtomicU64,
}

impl std::fmt::Debug for Invalidations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Invalidations({:?})", self.standing())
    }
}

fn generation_key(user: &Digest) -> String {
    format!("generation:user:{}", user.to_hex())
}

impl Invalidations {
    /// Over `store`. Nothing is asked before [`Invalidations::listen`] or the first load.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, metrics: &Metrics) -> Arc<Self> {
        let began = nanos(&clock).saturating_sub(u64::try_from(SKEW.as_nanos()).unwrap_or(0));
        Arc::new(Self {
            store,
            generations: Arc::default(),
            metrics: metrics.invalidations.clone(),
            me: getrandom::u64().unwrap_or(began),
            began,
            clock,
            known: Mutex::new(None),
            subscription: AtomicU8::new(UNKNOWN),
            longest: AtomicU64::new(LEAST_STAY),
        })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The generations in memory.
    #[must_use]
    pub fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// How it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let generation = self.known().as_ref().map_or(0, |head| head.at);
        Standing { subscribed: self.subscription.load(Ordering::Relaxed) == UP, generation }
    }

    /// Values may stay in the store for so long: a user's generation stays longer.
    pub fn stays(&self, longest: Duration) {
        self.longest.fetch_max(longest.as_secs(), Ordering::Relaxed);
    }

    /// Invalidates `target`, here and at every replica, and forgets `keys`. Returns its
    /// generation.
    ///
    /// # Errors
    /// If the store could not be told all of it. Then it holds for this process alone, and asking
    /// again is right.
    pub async fn invalidate(&self, target: &Target, keys: &[String]) -> Result<u64, StoreError> {
        // At once, and again when no load finds old values in the store any more.
        self.generations.raise(target);
        let told = self.tell(target, keys).await;
        self.generations.raise(target);
        self.metrics.counted("asked", target.kind());
        if told.is_err() {
            self.metrics.failed.inc();
        }
        told
    }

    async fn tell(&self, target: &Target, keys: &[String]) -> Result<u64, StoreError> {
        let head = self.raise(target).await;
        let at = head.as_ref().map_or_else(|_| nanos(&self.clock), |(_, raised)| raised.at);
        let mut failed = head.as_ref().err().copied();
        if let Target::User(user) = target {
            let stay = self.longest.load(Ordering::Relaxed).saturating_mul(2);
            let stay = Duration::from_secs(stay);
            let set = self.store.set(&generation_key(user), at.to_string().into(), stay).await;
            failed = failed.or(set.err());
        }
        for key in keys {
            failed = failed.or(self.store.delete(key).await.err());
        }
        if let Ok((after, raised)) = head {
            let message = Message { from: self.me, after, raised };
            let text = serde_json::to_vec(&message).unwrap_or_default();
            failed = failed.or(self.store.publish(CHANNEL, text.into()).await.err());
        }
        failed.map_or(Ok(at), Err)
    }

    /// Raises the head in the store. Returns the generation before.
    async fn raise(&self, target: &Target) -> Result<(u64, Raised), StoreError> {
        for attempt in 0..=TRIES {
            let old = self.store.get(HEAD).await?;
            let before = old.as_deref().and_then(Head::read).unwrap_or_default();
            let (next, raised) = before.after(target, nanos(&self.clock));
            let value = Bytes::from(serde_json::to_vec(&next).unwrap_or_default());
            let done = match &old {
                // What is there and cannot be read as ours is replaced in the end.
                _ if attempt == TRIES => {
                    self.store.set(HEAD, value, HEAD_STAYS).await?;
                    true
                }
                Some(old) => self.store.compare_and_swap(HEAD, old, value, HEAD_STAYS).await?,
                None => self.store.set_if_absent(HEAD, value, HEAD_STAYS).await?,
            };
            if done {
                let mut known = self.known();
                if known.as_ref().is_none_or(|known| known.at == before.at) {
                    *known = Some(next);
                }
                return Ok((before.at, raised));
            }
        }
        Err(StoreError("others invalidate all the time"))
    }

    /// Knows the head, reading it if need be: before a load notes anything.
    pub async fn ready(&self) {
        if self.known().is_none() {
            // A store that fails shows where the load reads it.
            let _ = self.reread().await;
        }
    }

    /// The generation of all that concerns a user's values in the store, to be kept beside such a
    /// value and held against the one at its reading.
    ///
    /// # Errors
    /// If it is not known: then no value of the store can be believed.
    pub async fn generation(&self, user: &Digest, issuer: &str) -> Result<String, StoreError> {
        let own = self.store.get(&generation_key(user)).await?;
        let own = own.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let known = self.known();
        let head = known.as_ref().ok_or(StoreError("the generations are not known"))?;
        Ok(format!("{}.{own}", head.generation(issuer)))
    }

    /// Listens until it is dropped.
    pub async fn listen(self: Arc<Self>) {
        let rereading = async {
            loop {
                tokio::time::sleep(REREAD).await;
                // Also where messages do not come, so that it takes these seconds and no longer. A
                // store that fails is asked again in its turn.
                let _ = self.reread().await;
            }
        };
        let subscriber = Arc::clone(&self) as Arc<dyn Subscriber>;
        tokio::select! {
            () = self.store.subscribe(CHANNEL, subscriber) => {}
            () = rereading => {}
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Head>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the head, and raises what was missed since it was known.
    async fn reread(&self) -> Result<(), StoreError> {
        let read = self.store.get(HEAD).await?;
        let head = read.as_deref().and_then(Head::read).unwrap_or_default();
        let mut known = self.known();
        let missed = match &*known {
            // Nothing was kept before this process began.
            None if head.at < self.began => Some(Vec::new()),
            None => None,
            // Read before what a message told meanwhile.
            Some(known) if head.at != 0 && head.at < known.at && known.since(&head).is_some() => {
                return Ok(());
            }
            Some(known) => head.since(known),
        };
        for target in missed.unwrap_or_else(|| vec![Target::Everything]) {
            self.generations.raise(&target);
            self.metrics.counted("missed", target.kind());
        }
        *known = Some(head);
        Ok(())
    }

    /// Takes what another tells; says whether something between was missed.
    fn take(&self, message: &Message) -> bool {
        let target = message.raised.target();
        self.generations.raise(&target);
        self.metrics.counted("received", target.kind());
        let late = nanos(&self.clock).saturating_sub(message.raised.at);
        self.metrics.lag.observe(Duration::from_nanos(late).as_secs_f64());
        let mut known = self.known();
        match &mut *known {
            Some(head) if head.at == message.after => {
                head.take(&message.raised);
                false
            }
            Some(head) => head.at < message.raised.at,
            None => true,
        }
    }
}

fn nanos(clock: &Clock) -> u64 {
    u64::try_from(clock.now().unix_nanos).unwrap_or(0)
}

impl Subscriber for Invalidations {
    fn subscribed(&self) -> Storing<'_, ()> {
        Box::pin(async move {
            self.reread().await?;
            self.metrics.subscriptions.inc();
            self.metrics.subscribed.set(1);
            if self.subscription.swap(UP, Ordering::Relaxed) != UP {
                tracing::info!("invalidations of other replicas are heard");
            }
            Ok(())
        })
    }

    fn message(&self, message: Bytes) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let message = serde_json::from_slice::<Message>(&message);
            let gap = match &message {
                Ok(message) if message.from == self.me => false,
                Ok(message) => self.take(message),
                Err(_) => true,
            };
            if gap {
                // The next one, or the next reading in its turn, tries again.
                let _ = self.reread().await;
            }
        })
    }

    fn lost(&self) {
        self.metrics.subscribed.set(0);
        if self.subscription.swap(DOWN, Ordering::Relaxed) != DOWN {
            tracing::warn!("invalidations of other replicas are not heard now");
        }
    }
}

#[cfg(test)]
mod tests;
