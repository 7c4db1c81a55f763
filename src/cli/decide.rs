//! `portcullis decide`: one Check without Envoy.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use super::described::Described;
use super::{CliError, print, render};
use crate::app;
use crate::check;
use crate::config;
use crate::model::{Outcome, Request};

/// Largest request description that is read.
const MAX_DESCRIPTION: u64 = 64 << 20;

/// Decides one described request with the configured stages. Exit status: 0 allow, 1 deny,
/// 2 unavailable or bad use.
#[derive(Debug, clap::Args)]
pub(super) struct Decide {
    /// The configuration file.
    #[arg(long)]
    config: PathBuf,
    /// The request as YAML or JSON (method, path, host, headers, body, source,
    /// `context_extensions`, …); standard input by default.
    #[arg(long)]
    request: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Decide {
    pub(super) fn run(&self) -> Result<ExitCode, CliError> {
        let request = self.read()?;
        let loaded = config::load(&self.config)?;
        let prepared = app::prepare(&loaded)?;
        let runtime = app::runtime(&loaded.config)?;
        let explained = runtime.block_on(async {
            let running = prepared.start().await;
            let now = prepared.clock.now();
            let deadline = Instant::now() + prepared.budget;
            let explained = check::explain(&request, &prepared.snapshot, now, deadline).await;
            running.stop().await;
            explained
        });
        let text = if self.json {
            format!("{:#}\n", render::to_json(&explained))
        } else {
            render::to_text(&explained)
        };
        print(&text);
        Ok(ExitCode::from(match explained.checked.outcome {
            Outcome::Allow(_) => 0,
            Outcome::Deny(_) => 1,
            Outcome::Unavailable(_) => 2,
        }))
    }

    fn read(&self) -> Result<Request, CliError> {
        let mut text = String::new();
        let name = self.request.as_ref().map_or("standard input".into(), |path| path.display().to_string());
        let read = match &self.request {
            Some(path) => std::fs::File::open(path)
                .and_then(|file| file.take(MAX_DESCRIPTION).read_to_string(&mut text)),
            None => std::io::stdin().lock().take(MAX_DESCRIPTION).read_to_string(&mut text),
        };
        read.map_err(|error| CliError::Use(format!("{name} cannot be read: {error}")))?;
        let value = config::parse_value(&text).map_err(|error| CliError::Use(format!("{name}: {error}")))?;
        let described: Described =
            serde_json::from_value(value).map_err(|error| CliError::Use(format!("{name}: {error}")))?;
        Ok(described.into())
    }
}
