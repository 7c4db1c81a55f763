//! The HTTP client of a dependency lives on across configurations, with its connections, its
//! limits and its breaker.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{BuildError, Http, HttpOptions};
use crate::model::{Digest, Hasher};
use crate::telemetry::Metrics;

/// The client that was built last.
#[derive(Debug, Default)]
pub struct Clients(Mutex<Option<(Digest, Http)>>);

impl Clients {
    /// A client for `options`: the one at hand if it was built for the same, the content of
    /// certificates and keys included.
    ///
    /// # Errors
    /// If the certificates cannot be read.
    pub fn get(&self, options: &HttpOptions, metrics: Arc<Metrics>) -> Result<Http, BuildError> {
        let ours = options.client_certificate.iter().flat_map(|(chain, key)| [chain, key]);
        let files: Vec<&PathBuf> = options.ca_file.iter().chain(ours).collect();
        let wanted = Hasher::new("http client").part(format!("{options:?}").as_bytes());
        let read =
            |hasher: Hasher, file: &&PathBuf| hasher.optional(std::fs::read(file).ok().as_deref());
        let wanted = files.iter().fold(wanted, read).finish();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((built_for, client)) = &*last
            && *built_for == wanted
        {
            return Ok(client.clone());
        }
        let client = Http::new(options, metrics)?;
        *last = Some((wanted, client.clone()));
        Ok(client)
    }
}
