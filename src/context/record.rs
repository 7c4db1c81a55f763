//! A profile as the store holds it: versioned, owned, with its times. The store is not trusted:
//! what does not verify is a miss.

use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ask::Ask;
use super::config::Fold;
use super::profile::{Answer, Profile};
use super::user_api::Api;
use crate::clock::Now;
use crate::model::Digest;

/// Raised whenever the meaning of a record changes; part of the key, too.
const VERSION: u32 = 2;
/// How far another replica's clock may be ahead of ours.
const SKEW: Duration = Duration::from_mins(1);
/// What a record adds to its profile, generously.
const FRAME: usize = 16 << 10;
/// Kept of a value: letters, digits, `-` and `_`. The rest, such as what stands between two
/// variables, is escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

#[derive(Serialize, Deserialize)]
struct Record<'a> {
    v: u32,
    issuer: String,
    subject: String,
    asked: String,
    /// The user's generation when the load began.
    generation: String,
    /// Nanoseconds since the Unix epoch.
    fetched: i64,
    /// Nanoseconds since the Unix epoch.
    expires: i64,
    known: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    profile: Option<&'a RawValue>,
}

/// How the key of a user's record is made. Left out, a hash, so that no name shows in a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyTemplate(Option<Box<[Piece]>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Issuer(Fold),
    Subject(Fold),
}

impl KeyTemplate {
    /// Reads a template: text with the variables `{issuer}` and `{sub}`, each perhaps with
    /// `|lower`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, variable)) = rest.split_once('{') {
            let Some((name, after)) = variable.split_once('}') else {
                return Err("a `{` has no `}`".to_owned());
            };
            pieces.push(Piece::Text(before.into()));
            pieces.push(match name {
                "issuer" => Piece::Issuer(Fold::None),
                "issuer|lower" => Piece::Issuer(Fold::Ascii),
                "sub" => Piece::Subject(Fold::None),
                "sub|lower" => Piece::Subject(Fold::Ascii),
                other => return Err(format!("there is no variable `{other}`")),
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.into()));
        if rest.contains('}') || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("it holds a lone `}`, a space or a control character".to_owned());
        }
        let apart = |piece: &Piece| match piece {
            Piece::Text(text) => {
                text.chars().any(|c| !c.is_ascii_alphanumeric() && !"-_%".contains(c))
            }
            Piece::Issuer(_) | Piece::Subject(_) => true,
        };
        // Between two variables; the first and the last piece are texts beside one alone.
        let inner = pieces.get(1..pieces.len().saturating_sub(1)).unwrap_or_default();
        if !inner.iter().all(apart) {
            return Err("between two variables there is nothing that no value can hold".to_owned());
        }
        if !pieces.iter().any(|piece| matches!(piece, Piece::Subject(_))) {
            return Err("it has no `{sub}`, so that users would put one another out".to_owned());
        }
        Ok(Self(Some(pieces.into())))
    }

    /// Whether it tells the users of several issuers apart.
    pub(super) fn names_issuer(&self) -> bool {
        let issuer = |piece: &Piece| matches!(piece, Piece::Issuer(_));
        self.0.as_ref().is_none_or(|pieces| pieces.iter().any(issuer))
    }

    /// The key of `subject` of `issuer`. Values are escaped, so that none can look like text of
    /// the template or like another's value.
    pub(super) fn key(&self, issuer: &str, subject: &str) -> String {
        let mut key = format!("profile:v{VERSION}:");
        let Some(pieces) = &self.0 else {
            key.push_str(&Digest::of_user(issuer, subject).to_hex());
            return key;
        };
        let escaped = |value: &str, fold: Fold| {
            let value = match fold {
                Fold::None => value.to_owned(),
                Fold::Ascii => value.to_ascii_lowercase(),
            };
            percent_encoding::utf8_percent_encode(&value, ESCAPED).to_string()
        };
        for piece in pieces {
            match piece {
                Piece::Text(text) => key.push_str(text),
                Piece::Issuer(fold) => key.push_str(&escaped(issuer, *fold)),
                Piece::Subject(fold) => key.push_str(&escaped(subject, *fold)),
            }
        }
        key
    }
}

/// A profile out of the store.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) answer: Answer,
    pub(super) fetched: Now,
    /// Nanoseconds since the Unix epoch; may be past.
    pub(super) expires: i64,
}

/// The record of `profile`, which answers `ask` and was loaded in `generation`.
pub(super) fn encode(ask: &Ask, profile: &Profile, generation: &str) -> Option<Bytes> {
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
        generation: generation.to_owned(),
        fetched,
        expires,
        known: profile.is_some(),
        profile,
    };
    serde_json::to_vec(&record).ok().map(Bytes::from)
}

/// What `bytes` say about the user that `ask` is about, if they verify: right version, owner
/// question and generation, a sound profile of that person, times that can be.
pub(super) fn decode(
    bytes: &[u8],
    ask: &Ask,
    api: &Api,
    generation: &str,
    now: &Now,
) -> Option<Stored> {
    if bytes.len() > api.max_response.saturating_add(FRAME) {
        return None;
    }
    let record: Record<'_> = serde_json::from_slice(bytes).ok()?;
    let owned = *record.issuer == *ask.issuer && *record.subject == *ask.subject;
    let current = record.v == VERSION && record.generation == generation;
    if !current || !owned || record.asked != ask.asked.to_hex() {
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
