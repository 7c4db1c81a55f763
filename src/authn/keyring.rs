//! The keys of one issuer as a configuration wants them, from scratch or from the one before.

use std::path::Path;
use std::sync::Arc;

use super::config::IssuerConfig;
use super::fetch::Fetcher;
use super::jwks;
use super::keys::Keys;
use crate::clock::Clock;
use crate::model::{Digest, Hasher, Problem};
use crate::telemetry::Metrics;

/// Keys with what they were made for.
pub(super) struct Ring {
    pub(super) keys: Arc<Keys>,
    /// They are, or began as, those of the verifier before.
    pub(super) carried: bool,
    /// Hash of where they come from. Keys of one source never serve for another.
    source: Digest,
    /// Hash of the source and of every setting around it.
    settings: Digest,
}

/// The keys of one issuer; those of a file are read here. Of the rings before it takes the one for
/// the same settings as it is, and of one for the same source the keys.
pub(super) fn ring_of<'r>(
    config: &IssuerConfig,
    base: &Path,
    clock: &Clock,
    metrics: &Arc<Metrics>,
    mut before: impl Iterator<Item = &'r Ring>,
) -> Result<Ring, Problem> {
    let (source, settings) = (source(config), settings(config, base));
    let known = before.find(|ring| ring.source == source);
    if let Some(known) = known
        && config.keys.file.is_none()
        && known.settings == settings
    {
        return Ok(Ring { keys: Arc::clone(&known.keys), carried: true, source, settings });
    }
    let (name, required) = (config.name.as_str(), config.required);
    let fetcher = Fetcher::new(name, &config.issuer, &config.keys, base, Arc::clone(metrics))?;
    let mut keys =
        Keys::new(name, required, &config.keys, fetcher, clock.clone(), Arc::clone(metrics));
    if let Some(known) = known {
        keys = keys.seeded(&known.keys);
    }
    if let Some(file) = &config.keys.file {
        install(&keys, &base.join(file))?;
    }
    Ok(Ring { keys, carried: known.is_some(), source, settings })
}

fn source(config: &IssuerConfig) -> Digest {
    let keys = &config.keys;
    let from = format!("{:?} {} {:?}", keys.jwks_uri, keys.discovery, keys.file);
    Hasher::new("key source").part(config.issuer.as_bytes()).part(from.as_bytes()).finish()
}

fn settings(config: &IssuerConfig, base: &Path) -> Digest {
    let ca = config.keys.ca_file.as_ref().and_then(|file| std::fs::read(base.join(file)).ok());
    Hasher::new("key settings")
        .part(config.name.as_bytes())
        .part(&[u8::from(config.required)])
        .part(format!("{:?}", config.keys).as_bytes())
        .optional(ca.as_deref())
        .finish()
}

fn install(keys: &Keys, path: &Path) -> Result<(), Problem> {
    let problem = |why: String| {
        let message = format!("`{}` {why}", path.display());
        Problem::new("/file", message, "name a file with the issuer's key set (JWKS)")
    };
    let body = std::fs::read(path).map_err(|e| problem(format!("cannot be read: {e}")))?;
    let install = |parsed| keys.install(parsed, Digest::of("jwks", &body), None);
    jwks::parse(&body).and_then(install).map_err(|why| problem(format!("cannot be used: {why}")))
}
