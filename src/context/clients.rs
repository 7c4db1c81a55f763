//! The HTTP client lives on across configurations, with its connections and its limits.

use std::sync::{Arc, Mutex, PoisonError};

use crate::dependency::{BuildError, Http, HttpOptions};
use crate::model::{Digest, Hasher};
use crate::telemetry::Metrics;

/// The client that was built last.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Option<(Digest, Http)>>);

impl Clients {
    /// A client for `options`: the one at hand if it was built for the same, certificates
    /// included.
    ///
    /// # Errors
    /// If the certificates cannot be read.
    pub(super) fn get(
        &self,
        options: &HttpOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Http, BuildError> {
        let certificates = options.ca_file.as_ref().and_then(|file| std::fs::read(file).ok());
        let wanted = Hasher::new("http client")
            .part(format!("{options:?}").as_bytes())
            .optional(certificates.as_deref())
            .finish();
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
