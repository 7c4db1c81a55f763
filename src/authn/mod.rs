//! Credential → verified token.
//!
//! A token's way: [`Verifier`] hashes it and looks for it in its caches; else `token` splits and
//! decodes it strictly (`json`), `header` and `claims` hold it against its issuer's `rules`,
//! `keys` finds the issuer's key (fetched through `fetch`, parsed by `jwks`), and `jsonwebtoken`
//! verifies the signature, which is all it does. Of an unverified token only the header and
//! `iss` are used, to find the key.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::{BoxFuture, CacheState, Demand, Refusal, Secret, VerifiedToken};

mod algorithm;
mod cached;
mod claims;
mod config;
mod demand;
mod fetch;
mod header;
mod json;
mod jwks;
mod keyring;
mod keys;
mod keyset;
mod problems;
mod rules;
#[cfg(test)]
mod tests;
mod token;
mod verifier;

pub use config::{AnyAudience, Audiences, IssuerConfig, KeysConfig, TokensConfig};
pub use keys::IssuerState;
pub use problems::issuer_problems;
pub use verifier::Verifier;

/// A verified token with where the verification came from.
pub type Verified = (Arc<VerifiedToken>, CacheState);

/// Verifies bearer tokens. Both ways check the route's demand and the token's times at `now`
/// on every call, whatever was cached.
pub trait Authenticator: Send + Sync {
    /// From memory alone; `None` where signature or keys must be looked at.
    fn peek(&self, token: &str, demand: &Demand, now: &Now) -> Option<Result<Verified, Refusal>>;

    /// Verifies, fetching keys where that is needed. The caller bounds the time.
    fn resolve<'a>(
        &'a self,
        token: &'a Secret<String>,
        demand: &'a Demand,
        now: Now,
    ) -> BoxFuture<'a, Result<Verified, Refusal>>;
}
