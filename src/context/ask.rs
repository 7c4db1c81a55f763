//! What is asked of the user API for one token.

use std::borrow::Cow;

use serde_json::{Map, Value};
use url::Url;

use super::config::{Credential, Fold, Owner, UserApi};
use crate::dependency::UrlTemplate;
use crate::model::{Code, Digest, Hasher, Refusal, VerifiedToken};
use crate::store::Places;

/// One question to the user API, for one token.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// Whose profile is asked for.
    pub(super) issuer: Box<str>,
    /// Whose profile is asked for.
    pub(super) subject: Box<str>,
    /// Hash of issuer and subject.
    pub(super) user: Digest,
    /// Key of the profile: the user, and the token where the answer depends on it.
    pub(super) key: Digest,
    /// Hash of the URL and of how it is asked: another question's answer is none to this one.
    pub(super) asked: Digest,
    /// The token that asks.
    pub(super) token: Digest,
    /// What invalidations concern the answer by.
    pub(super) places: Places,
    /// The URL to get.
    pub(super) url: Url,
    /// Whether the answer is shared with other replicas.
    pub(super) shared: bool,
    owner: Option<(Box<str>, Fold)>,
}

/// Makes an [`Ask`] of a token.
#[derive(Debug)]
pub(super) struct Asker {
    template: UrlTemplate,
    credential: Credential,
    owner: Option<Owner>,
    per_token: bool,
}

const NO_OWNER: Refusal =
    Refusal::new(Code::TokenClaims, "the token lacks the claim that says whose profile it is");
const NO_SEGMENT: Refusal = Refusal::new(
    Code::TokenClaims,
    "the token lacks a value for the user API's URL, or it is none that can stand there",
);

impl Asker {
    pub(super) fn new(api: &UserApi, template: UrlTemplate) -> Self {
        let (credential, owner) = (api.credential, api.owner.clone());
        Self { template, credential, owner, per_token: api.per_token }
    }

    /// The question for `token`. What its claims lack is the caller's matter: a denial.
    pub(super) fn ask(&self, token: &VerifiedToken) -> Result<Ask, Refusal> {
        let (issuer, subject) = (&token.grant.issuer, &token.subject);
        let claims: Map<String, Value> =
            serde_json::from_str(&token.claims.json()).unwrap_or_default();
        let claim = |name: &str| match claims.get(name) {
            Some(Value::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let owner = match &self.owner {
            Some(pair) => {
                let name = claim(&pair.claim).filter(|name| !name.is_empty()).ok_or(NO_OWNER)?;
                Some((name.into(), pair.fold))
            }
            None => None,
        };
        let value = |name: &str| match name {
            "sub" => Some(Cow::Borrowed(&**subject)),
            "issuer" => Some(Cow::Borrowed(&**issuer)),
            other => other.strip_prefix("claim:").and_then(claim).map(Cow::Borrowed),
        };
        let url = self.template.expand(value).map_err(|_| NO_SEGMENT)?;
        let user = token.user();
        let key = if self.per_token {
            Hasher::new("user of token").part(user.as_bytes()).part(token.hash.as_bytes()).finish()
        } else {
            user
        };
        Ok(Ask {
            issuer: (&**issuer).into(),
            subject: (&**subject).into(),
            user,
            key,
            asked: self.asked(&url),
            token: token.hash,
            places: if self.per_token { token.places } else { Places::of_user(&user, issuer) },
            url,
            shared: !self.per_token,
            owner,
        })
    }

    fn asked(&self, url: &Url) -> Digest {
        let by: &[u8] = match self.credential {
            Credential::Caller => b"caller",
            Credential::ApiKey => b"api_key",
        };
        let owner = self.owner.as_ref().map(|owner| owner.profile.as_bytes());
        Hasher::new("asked").part(url.as_str().as_bytes()).part(by).optional(owner).finish()
    }

    /// Hash of all of the configuration that decides which answer serves whom.
    pub(super) fn digest(&self) -> Digest {
        let owner = self.owner.as_ref().map(|owner| format!("{owner:?}"));
        Hasher::new("asker")
            .part(self.template.as_str().as_bytes())
            .part(format!("{:?}", self.credential).as_bytes())
            .optional(owner.as_deref().map(str::as_bytes))
            .part(&[u8::from(self.per_token)])
            .finish()
    }

    /// Whose profile `profile` says it is.
    pub(super) fn owner_in(&self, profile: &Value) -> Option<Box<str>> {
        let pair = self.owner.as_ref()?;
        profile.pointer(&pair.profile)?.as_str().map(Into::into)
    }
}

impl Ask {
    /// Whether a profile that says it is `owner`'s is the caller's.
    pub(super) fn owns(&self, owner: Option<&str>) -> bool {
        match (&self.owner, owner) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((name, Fold::None)), Some(owner)) => **name == *owner,
            (Some((name, Fold::Ascii)), Some(owner)) => name.eq_ignore_ascii_case(owner),
        }
    }
}
