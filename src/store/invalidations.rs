//! Invalidations, told to every replica that shares the store.
//!
//! Who invalidates gives the user a new generation in the store, deletes, raises the head there,
//! then publishes. Whoever listens raises its own generations in memory; what was kept by older
//! ones serves no more. A message may be lost: each names the one before it, and on every
//! subscription, on every gap and every few seconds the head is read again, so that what was
//! missed takes effect.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::head::{Head, Raised};
use super::{Generations, Store, StoreError, Storing, Subscriber, Target};
use crate::clock::Clock;
use crate::model::{BoxFuture, Digest};
use crate::telemetry::{InvalidationMetrics, Metrics};

/// What every key of ours in the store begins with.
pub(super) const KEYS: &str = "generation";
/// Holds the list of the last changes, and the generations of issuers and of everything.
pub(super) const HEAD: &str = "generations";
const CHANNEL: &str = "invalidations";
/// How long the head stays after the last invalidation. Where it is gone, everything counts as
/// invalidated once.
const HEAD_STAYS: Duration = Duration::from_hours(30 * 24);
/// How often the head is read, whatever messages come.
const REREAD: Duration = Duration::from_secs(5);
/// Another's clock may be so much behind ours.
const SKEW: Duration = Duration::from_mins(1);
/// A head that cannot be read, perhaps of replicas with another key, is replaced after so long.
const UNREADABLE: Duration = Duration::from_mins(1);
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
    /// Whether the head could not be read some time: others may have invalidated unheard.
    cut_off: AtomicBool,
    /// Since when the head is there and cannot be read, nanoseconds; zero where it can be.
    unreadable: AtomicU64,
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
            cut_off: AtomicBool::new(false),
            unreadable: AtomicU64::new(0),
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
        let mut failed = None;
        // Before the head: who reads that early and hears no message reads this too.
        if let Target::User(user) = target {
            let stay = self.longest.load(Ordering::Relaxed).saturating_mul(2);
            let stay = Duration::from_secs(stay);
            let fresh = format!("{}-{:x}", nanos(&self.clock), getrandom::u64().unwrap_or(self.me));
            failed = self.store.set(&generation_key(user), fresh.into(), stay).await.err();
        }
        for key in keys {
            failed = failed.or(self.store.delete(key).await.err());
        }
        let (after, raised) = self.raise(target).await?;
        let at = raised.at;
        let message = Message { from: self.me, after, raised };
        let text = serde_json::to_vec(&message).unwrap_or_default();
        failed = failed.or(self.store.publish(CHANNEL, text.into()).await.err());
        failed.map_or(Ok(at), Err)
    }

    /// Raises the head in the store. Returns the generation before.
    async fn raise(&self, target: &Target) -> Result<(u64, Raised), StoreError> {
        for attempt in 0..=TRIES {
            let old = self.get().await?;
            let read = old.as_deref().and_then(Head::read);
            let heard = self.heard(old.as_ref(), read.as_ref());
            let before = read.unwrap_or_else(|| self.fresh());
            let (next, raised) = before.after(target, nanos(&self.clock));
            let done = if attempt == TRIES {
                // What is there and cannot be read as ours is replaced in the end.
                self.store.set(HEAD, next.text(), HEAD_STAYS).await?;
                true
            } else {
                self.put(old.as_ref(), &next).await?
            };
            if done {
                self.unreadable.store(0, Ordering::Relaxed);
                self.adopt(next, heard, Some(target));
                return Ok((before.at, raised));
            }
        }
        Err(StoreError("others invalidate all the time"))
    }

    async fn get(&self) -> Result<Option<Bytes>, StoreError> {
        let read = self.store.get(HEAD).await;
        if read.is_err() {
            self.cut_off.store(true, Ordering::Relaxed);
        }
        read
    }

    /// Puts `head` in place of `old`; says whether that was still there.
    async fn put(&self, old: Option<&Bytes>, head: &Head) -> Result<bool, StoreError> {
        match old {
            Some(old) => self.store.compare_and_swap(HEAD, old, head.text(), HEAD_STAYS).await,
            None => self.store.set_if_absent(HEAD, head.text(), HEAD_STAYS).await,
        }
    }

    /// The head where there is none: no generation of before comes again.
    fn fresh(&self) -> Head {
        Head::default().after(&Target::Everything, nanos(&self.clock)).0
    }

    /// Until when others may have invalidated, as far as the head in the store tells.
    fn heard(&self, there: Option<&Bytes>, read: Option<&Head>) -> u64 {
        match read {
            Some(head) => head.at,
            None if there.is_none() && !self.cut_off.load(Ordering::Relaxed) => 0,
            None => nanos(&self.clock),
        }
    }

    /// Knows `next`, and raises with it what was missed, and `own`, which is the last in it.
    /// Others may have invalidated until `heard`.
    fn adopt(&self, next: Head, heard: u64, own: Option<&Target>) {
        let mut known = self.known();
        let older = known.as_ref().is_some_and(|known| next.at < known.at);
        let missed = match &*known {
            // Nothing was kept before this process began.
            None if heard < self.began => Some(Vec::new()),
            None => None,
            // It was read before what was told meanwhile.
            Some(known) if older && known.since(&next).is_some() => return,
            Some(known) => next.since(known),
        };
        let mut missed = missed.unwrap_or_else(|| vec![Target::Everything]);
        if own.is_some() && missed.last() == own {
            missed.pop();
        }
        // An older one is read once more before it is believed.
        *known = (!older).then_some(next);
        for target in &missed {
            self.generations.raise(target);
            self.metrics.counted("missed", target.kind());
        }
        if let Some(own) = own {
            self.generations.raise(own);
        }
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

    /// Reads the head, and raises what was missed since it was known. Where there is none, one
    /// begins.
    async fn reread(&self) -> Result<(), StoreError> {
        for _ in 0..2 {
            let there = self.get().await?;
            let read = there.as_deref().and_then(Head::read);
            let since = self.heard(there.as_ref(), read.as_ref());
            let head = if let Some(head) = read {
                head
            } else {
                let fresh = self.fresh();
                if !self.put(there.as_ref(), &fresh).await.unwrap_or(false) {
                    continue;
                }
                fresh
            };
            self.unreadable.store(0, Ordering::Relaxed);
            self.adopt(head, since, None);
            return Ok(());
        }
        self.unreadable().await
    }

    /// The head is there and cannot be read, or there is none and none can be written: what was
    /// kept may have been invalidated. Generations of this process alone until that changes.
    async fn unreadable(&self) -> Result<(), StoreError> {
        let (now, fresh) = (nanos(&self.clock), self.fresh());
        let since = self.unreadable.load(Ordering::Relaxed);
        if since == 0 {
            self.unreadable.store(now, Ordering::Relaxed);
            self.adopt(fresh, now, None);
        } else if Duration::from_nanos(now.saturating_sub(since)) >= UNREADABLE {
            self.store.set(HEAD, fresh.text(), HEAD_STAYS).await?;
            self.unreadable.store(0, Ordering::Relaxed);
            self.adopt(fresh, now, None);
        }
        Ok(())
    }

    /// Takes what another tells; says whether something between was missed.
    fn take(&self, message: &Message) -> bool {
        let target = message.raised.target();
        let late = nanos(&self.clock).saturating_sub(message.raised.at);
        let gap = {
            let mut known = self.known();
            let gap = match &mut *known {
                Some(head) if head.at == message.after => {
                    head.take(&message.raised);
                    false
                }
                Some(head) => head.at < message.raised.at,
                None => true,
            };
            self.generations.raise(&target);
            gap
        };
        self.metrics.counted("received", target.kind());
        self.metrics.lag.observe(Duration::from_nanos(late).as_secs_f64());
        gap
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
