//! The verifier: caches in front, issuers behind.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::cached::{Entry, Rejected};
use super::config::{IssuerConfig, TokensConfig};
use super::header::Header;
use super::jwks::Key;
use super::keyring::{Ring, ring_of};
use super::keys::IssuerState;
use super::keyset::KeySet;
use super::rules::Rules;
use super::token::Unverified;
use super::{Authenticator, Verified, claims, demand};
use crate::clock::{Clock, Expiry, Now};
use crate::model::{BoxFuture, CacheState, Code, Demand, Digest, Problem, Refusal, Secret};
use crate::store::{Cache, Generations};
use crate::telemetry::Metrics;

/// One issuer with its keys.
struct Issuer {
    rules: Rules,
    ring: Ring,
}

/// Verifies bearer tokens of the configured issuers.
pub struct Verifier {
    issuers: Vec<Issuer>,
    by_iss: HashMap<Box<str>, usize>,
    /// Starts every token's hash: it covers the verifier's configuration.
    fingerprint: Digest,
    verified: Cache<Digest, Entry>,
    rejected: Cache<Digest, Rejected>,
    generations: Arc<Generations>,
    max_size: usize,
    ttl: Duration,
    rejection_ttl: Duration,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("issuers", &self.by_iss).finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier of the tokens of `issuers`, whose own problems have been looked for
    /// ([`super::issuer_problems`]). Keys from files (relative to `base`) are read here, so that
    /// it is ready at once where no keys are to be fetched; others come with [`Verifier::run`].
    ///
    /// # Errors
    /// All files that cannot be read or hold no usable key, and clients that cannot be built;
    /// pointers are relative to the section `issuers`.
    pub fn new(
        issuers: &[IssuerConfig],
        tokens: &TokensConfig,
        base: &Path,
        clock: &Clock,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, Vec<Problem>> {
        Self::succeeding(None, issuers, tokens, base, clock, (metrics, &Arc::default()))
    }

    /// As [`Verifier::new`], in the place of `before`, which goes on serving: an issuer whose keys
    /// come from where they came from has them from the start, and what was verified under the
    /// same configuration stays verified (every token's hash covers the configuration).
    /// Invalidations of `generations` end what was verified before them.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn succeeding(
        before: Option<&Self>,
        issuers: &[IssuerConfig],
        tokens: &TokensConfig,
        base: &Path,
        clock: &Clock,
        (metrics, generations): (&Arc<Metrics>, &Arc<Generations>),
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut ready = Vec::new();
        for (index, config) in issuers.iter().enumerate() {
            let known = before.iter().flat_map(|before| &before.issuers);
            let known = known.map(|issuer| &issuer.ring);
            match ring_of(config, base, clock, metrics, known) {
                Ok(ring) => ready.push(Issuer { rules: Rules::new(config), ring }),
                Err(problem) => problems.push(problem.under(&format!("/{index}/keys"))),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let by_iss =
            ready.iter().enumerate().map(|(index, issuer)| ((*issuer.rules.issuer).into(), index));
        Ok(Self {
            by_iss: by_iss.collect(),
            issuers: ready,
            fingerprint: Digest::of("token", format!("{issuers:?} {tokens:?}").as_bytes()),
            verified: before.map_or_else(
                || Cache::new("token", tokens.cache.0, metrics),
                |before| before.verified.clone(),
            ),
            rejected: before.map_or_else(
                || Cache::new("token_rejection", tokens.rejection_cache.0, metrics),
                |before| before.rejected.clone(),
            ),
            generations: Arc::clone(generations),
            max_size: tokens.max_size.as_usize(),
            ttl: tokens.cache_ttl.0,
            rejection_ttl: tokens.rejection_ttl.0,
        })
    }

    /// Shows its issuers' keys in the metrics, and no other issuer's.
    pub fn show(&self, metrics: &Metrics) {
        metrics.issuers_are(self.issuers.iter().map(|issuer| issuer.ring.keys.held()));
    }

    /// The first required issuer that waits for its first keys, and did not wait for them before
    /// this verifier either: until it has them, this one would refuse what its predecessor knew.
    #[must_use]
    pub fn waits_for(&self) -> Option<Arc<str>> {
        let waits = |issuer: &&Issuer| {
            let ring = &issuer.ring;
            ring.keys.required() && !ring.carried && !ring.keys.loaded()
        };
        self.issuers.iter().find(waits).map(|issuer| Arc::clone(&issuer.rules.name))
    }

    /// Fetches keys and keeps them fresh until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let fresh = self.issuers.iter().map(|issuer| Arc::clone(&issuer.ring.keys).keep_fresh());
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = async {
                join_all(fresh).await;
                shutdown.cancelled().await;
            } => {}
        }
    }

    /// Whether every required issuer has had keys. It does not turn false again.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.issuers.iter().all(|issuer| issuer.ring.keys.loaded() || !issuer.ring.keys.required())
    }

    /// How each issuer stands.
    #[must_use]
    pub fn states(&self) -> Vec<IssuerState> {
        self.issuers.iter().map(|issuer| issuer.ring.keys.issuer_state()).collect()
    }

    /// The hash of `token` under this configuration, unless the token is too large to look at.
    fn hash(&self, token: &str) -> Result<Digest, Refusal> {
        if token.len() > self.max_size {
            return Err(Refusal::new(Code::TokenTooLarge, "larger than tokens.max_size"));
        }
        Ok(self.fingerprint.keyed(token.as_bytes()))
    }

    /// Whether no invalidation ended `entry`.
    fn lives(&self, entry: &Entry) -> bool {
        !self.generations.moved(entry.epoch, || entry.token.places)
    }

    /// What is remembered of the token, held against everything that may have changed since.
    fn recall(
        &self,
        entry: Entry,
        hash: &Digest,
        asked: &Demand,
        now: &Now,
    ) -> Option<Result<Verified, Refusal>> {
        let set = self.issuers.get(usize::try_from(entry.issuer).ok()?)?.ring.keys.set();
        if !set.contains(entry.key) {
            self.verified.remove(hash);
            return None;
        }
        if !set.serves(now) {
            return None;
        }
        let checked =
            demand::in_time(&entry.token, now).and_then(|()| demand::meets(&entry.token, asked));
        let state = set.mark(CacheState::Hit, now);
        Some(checked.map(|()| (entry.token, state)))
    }

    /// Whether a rejection still stands: the keys that it rests on have not changed.
    fn stands(&self, rejected: &Rejected) -> bool {
        let settled = rejected.epoch == self.generations.epoch();
        settled
            && rejected.keys.is_none_or(|(issuer, generation)| {
                self.issuers.get(issuer).is_some_and(|i| i.ring.keys.set().generation == generation)
            })
    }

    /// Remembers a rejection, where it will hold.
    fn reject(
        &self,
        hash: Digest,
        refusal: Refusal,
        keys: Option<(usize, u64)>,
        now: &Now,
    ) -> Refusal {
        let passing = [Code::TokenKeyUnknown, Code::TokenNotYetValid, Code::KeysUnavailable];
        if !passing.contains(&refusal.code) {
            let expires = Expiry::after(now, self.rejection_ttl);
            let epoch = self.generations.epoch();
            self.rejected.insert(hash, Rejected { refusal, keys, epoch, expires });
        }
        refusal
    }

    /// Takes the token apart and finds its issuer.
    fn open<'t>(&self, token: &'t str) -> Result<(usize, &Issuer, Unverified<'t>), Refusal> {
        let unverified = Unverified::parse(token)?;
        let known = self.by_iss.get(unverified.issuer()?);
        let found = known.and_then(|index| Some((*index, self.issuers.get(*index)?)));
        let (index, issuer) =
            found.ok_or(Refusal::new(Code::TokenIssuer, "iss is not a configured issuer"))?;
        Ok((index, issuer, unverified))
    }

    #[cfg(test)]
    pub(super) fn verified(&self) -> &Cache<Digest, Entry> {
        &self.verified
    }

    async fn verify(
        &self,
        token: &str,
        hash: Digest,
        asked: &Demand,
        now: &Now,
    ) -> Result<Verified, Refusal> {
        let epoch = self.generations.epoch();
        let reject = |refusal| self.reject(hash, refusal, None, now);
        let (index, issuer, unverified) = self.open(token).map_err(reject)?;
        let rules = &issuer.rules;
        demand::accepts_issuer(asked, &rules.name)?;
        let header = Header::check(&unverified.header, rules).map_err(reject)?;
        let set = issuer.ring.keys.find(header.kid, header.algorithm, now).await?;
        let key = signer(&set, &header, &unverified)
            .map_err(|refusal| self.reject(hash, refusal, Some((index, set.generation)), now))?;
        let names = (hash, Digest::plain(token.as_bytes()));
        let token = claims::check(&unverified.claims, rules, names, now).map_err(reject)?;
        let token = Arc::new(token);
        let expires = token.expires.min(Expiry::after(now, self.ttl));
        let entry = Entry::new(Arc::clone(&token), key.serial, index, expires, epoch);
        self.verified.insert(hash, entry);
        demand::meets(&token, asked)?;
        Ok((token, set.mark(CacheState::Miss, now)))
    }
}

impl Authenticator for Verifier {
    fn peek(&self, token: &str, demand: &Demand, now: &Now) -> Option<Result<Verified, Refusal>> {
        let hash = match self.hash(token) {
            Ok(hash) => hash,
            Err(refusal) => return Some(Err(refusal)),
        };
        if let Some(entry) = self.verified.get_if(&hash, now, |entry| self.lives(entry)) {
            return self.recall(entry, &hash, demand, now);
        }
        let rejected = self.rejected.get(&hash, now)?;
        self.stands(&rejected).then_some(Err(rejected.refusal))
    }

    fn resolve<'a>(
        &'a self,
        token: &'a Secret<String>,
        demand: &'a Demand,
        now: Now,
    ) -> BoxFuture<'a, Result<Verified, Refusal>> {
        Box::pin(async move {
            let token = token.expose().as_str();
            let hash = self.hash(token)?;
            // Another Check may have verified it since this one looked.
            let entry = self.verified.peek(&hash, &now).filter(|entry| self.lives(entry));
            if let Some(known) = entry.and_then(|e| self.recall(e, &hash, demand, &now)) {
                return known;
            }
            self.verify(token, hash, demand, &now).await
        })
    }
}

/// The key that the token's signature verifies under.
fn signer(set: &KeySet, header: &Header<'_>, token: &Unverified<'_>) -> Result<Arc<Key>, Refusal> {
    let verifies = |key: &&Arc<Key>| {
        let (signature, message) = (token.signature, token.message);
        let verified =
            jsonwebtoken::crypto::verify(signature, message, &key.decoding, header.algorithm);
        matches!(verified, Ok(true))
    };
    let found = set.candidates(header.kid, header.algorithm).find(verifies);
    found.cloned().ok_or(Refusal::new(Code::TokenSignature, "the signature verifies under no key"))
}
