//! A profile as the store holds it: versioned, owned, with its times. The store is not trusted:
//! what does not verify is a miss.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ask::Ask;
use super::profile::{Answer, Profile};
use super::user_api::Api;
use crate::clock::Now;
use crate::model::Digest;

/// Raised whenever the meaning of a record changes; part of the key, too.
const VERSION: u32 = 1;
/// How far another replica's clock may be ahead of ours.
const SKEW: Duration = Duration::from_mins(1);
/// What a record adds to its profile, generously.
const FRAME: usize = 16 << 10;

#[derive(Serialize, Deserialize)]
struct Record<'a> {
    v: u32,
    issuer: String,
    subject: String,
    asked: String,
    /// Nanoseconds since the Unix epoch.
    fetched: i64,
    /// Nanoseconds since the Unix epoch.
    expires: i64,
    known: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    profile: Option<&'a RawValue>,
}

/// A profile out of the store.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) answer: Answer,
    pub(super) fetched: Now,
    /// Nanoseconds since the Unix epoch; may be past.
    pub(super) expires: i64,
}

/// The key of a user's record. A hash, so that no name can reach another's key.
pub(super) fn key(user: Digest) -> String {
    format!("portcullis:profile:v{VERSION}:{}", user.to_hex())
}

/// The record of `profile`, which answers `ask`.
pub(super) fn encode(ask: &Ask, profile: &Profile) -> Option<Bytes> {
    let (fetched, expires) = (profile.fetched.unix_nanos, profile.expires.unix_nanos());
    let profile = match &profile.answer {
        Answer::Known { json, .. } => Some(serde_json::from_str::<&RawValue>(json).ok()?),
        Answer::Unknown => None,
    };
    let record = Record {
        v: VERSION,
        issuer: (*ask.issuer).to_owned(),
        subject: (*ask.subject).to_owned(),
        asked: ask.asked.to_hex(),
        fetched,
        expires,
        known: profile.is_some(),
        profile,
    };
    serde_json::to_vec(&record).ok().map(Bytes::from)
}

/// What `bytes` say about the user that `ask` is about, if they verify: right version, owner
/// and question, a sound profile of that person, times that can be.
pub(super) fn decode(bytes: &[u8], ask: &Ask, api: &Api, now: &Now) -> Option<Stored> {
    if bytes.len() > api.max_response.saturating_add(FRAME) {
        return None;
    }
    let record: Record<'_> = serde_json::from_slice(bytes).ok()?;
    let owned = *record.issuer == *ask.issuer && *record.subject == *ask.subject;
    if record.v != VERSION || !owned || record.asked != ask.asked.to_hex() {
        return None;
    }
    let answer = match (record.known, record.profile) {
        (true, Some(profile)) => api.known(profile.get().as_bytes()).ok()?,
        (false, None) => Answer::Unknown,
        _ => return None,
    };
    if let Answer::Known { owner, .. } = &answer
        && !ask.owns(owner.as_deref())
    {
        return None;
    }
    let age = now.unix_nanos.checked_sub(record.fetched)?;
    let span = record.expires.checked_sub(record.fetched)?;
    if age < -i64::try_from(SKEW.as_nanos()).ok()? || span < 0 {
        return None;
    }
    let fetched = Now { unix_nanos: record.fetched, ..*now };
    Some(Stored { answer, fetched, expires: record.expires })
}
