//! What one issuer's tokens are held against.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;

use super::algorithm;
use super::config::{Audiences, IssuerConfig};
use crate::model::Grant;
use crate::store::Alike;

/// An issuer's configuration, made ready.
#[derive(Debug)]
pub(super) struct Rules {
    /// Configured name.
    pub name: Arc<str>,
    /// Exact `iss`.
    pub issuer: Arc<str>,
    pub algorithms: Vec<Algorithm>,
    /// `None`: any audience, and none at all.
    pub audiences: Option<Vec<Box<str>>>,
    /// `None`: any client, and none at all.
    pub clients: Option<Vec<Box<str>>>,
    /// Claims that become `input.token`.
    pub claims: Vec<Arc<str>>,
    /// Claims that must be there beside the registered ones.
    pub required: Vec<String>,
    pub leeway: Duration,
    /// What its tokens have alike.
    pub grants: Alike<Grant>,
}

impl Rules {
    /// The rules of `config`, whose problems have been looked for. An algorithm that is none is
    /// left out, so that a mistake refuses tokens rather than accepts them.
    pub(super) fn new(config: &IssuerConfig) -> Self {
        let boxed = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
        Self {
            name: config.name.as_str().into(),
            issuer: config.issuer.as_str().into(),
            algorithms: config.algorithms.iter().filter_map(|n| algorithm::by_name(n)).collect(),
            audiences: match &config.audiences {
                Audiences::Any(_) => None,
                Audiences::List(list) => Some(boxed(list)),
            },
            clients: config.clients.as_deref().map(boxed),
            claims: config.claims.iter().map(|name| name.as_str().into()).collect(),
            required: config.required_claims.clone(),
            leeway: config.leeway.0,
            grants: Alike::default(),
        }
    }
}
