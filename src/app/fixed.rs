//! What a reload leaves as it was at the start, because doors, threads, queues and caches that
//! outlive it were made of it.

use crate::config::{Config, Loaded};
use crate::model::Secret;

/// A section with how it reads, defaults filled in: what is written out but means the same is no
/// change.
type Section = (&'static str, fn(&Config) -> String);

const SECTIONS: [Section; 10] = [
    ("listen", |c| c.listen.places()),
    ("limits", |c| format!("{:?}", c.limits)),
    ("check", |c| format!("{:?}", c.check)),
    ("drain", |c| format!("{:?}", c.drain)),
    ("envoy", |c| format!("{:?}", c.envoy)),
    ("audit", |c| format!("{:?} {}", c.audit, subject_key(c))),
    ("store", |c| format!("{:?} {}", c.store, store_secrets(c))),
    ("log", |c| format!("{:?}", c.log)),
    ("tracing", |c| format!("{:?} {}", c.tracing, hashed([&c.tracing.headers]))),
    ("runtime", |c| format!("{:?}", c.runtime)),
];

/// Sizes of caches that live on; the rest of their sections reloads.
const SIZES: [Section; 6] = [
    ("tokens.cache", |c| format!("{:?}", c.tokens.cache)),
    ("tokens.rejection_cache", |c| format!("{:?}", c.tokens.rejection_cache)),
    ("user_context.cache", |c| format!("{:?}", c.user_context.cache)),
    ("policy.engine", |c| format!("{:?}", c.policy.as_ref().map(|policy| policy.engine))),
    ("policy.opa.on_failure", |c| {
        let opa = c.policy.as_ref().and_then(|policy| policy.opa.as_ref());
        format!("{:?}", opa.map(|opa| opa.on_failure))
    }),
    ("policy.cache", |c| format!("{:?}", c.policy.as_ref().map(|policy| policy.cache))),
];

/// Only ever compared: secrets show nothing of themselves.
fn subject_key(config: &Config) -> String {
    hashed([&config.audit.subject_key])
}

fn store_secrets(config: &Config) -> String {
    let Some(redis) = &config.store.redis else { return String::new() };
    let sentinels = redis.sentinels.as_ref().map(|sentinels| &sentinels.password);
    hashed([&redis.password, &redis.key, sentinels.unwrap_or(&None)])
}

fn hashed<const N: usize>(secrets: [&Option<Secret<String>>; N]) -> String {
    let hash = |key: &Secret<String>| blake3::hash(key.expose().as_bytes()).to_hex().to_string();
    secrets.map(|secret| secret.as_ref().map(hash).unwrap_or_default()).join(" ")
}

/// Names of the values in `new` that differ from what the process started with in `first`, and do
/// nothing before it starts again.
pub(super) fn ignored(first: &Loaded, new: &Loaded) -> Vec<String> {
    let mut names = Vec::new();
    for (section, text) in SECTIONS {
        if text(&first.config) == text(&new.config) {
            continue;
        }
        let leaves = first.differences(new, section);
        if leaves.is_empty() { names.push(section.to_owned()) } else { names.extend(leaves) }
    }
    let sizes = SIZES.into_iter().filter(|(name, text)| {
        // Policies that come or go take their cache along.
        let both = *name != "policy.cache"
            || (first.config.policy.is_some() && new.config.policy.is_some());
        both && text(&first.config) != text(&new.config)
    });
    names.extend(sizes.map(|(name, _)| name.to_owned()));
    names
}
