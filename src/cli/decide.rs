//! `portcullis decide`: one Check without Envoy.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use super::described::Described;
use super::{CliError, load, output, render};
use crate::app::{self, Explained};
use crate::config;
use crate::model::{Outcome, Request};

/// Largest request description that is read.
const MAX_DESCRIPTION: u64 = 64 << 20;

/// Exit status of an outcome that is neither allow nor deny, and of bad use.
const NEITHER: u8 = 2;

/// What to decide.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The request as YAML or JSON (`method`, `path`, `host`, `headers`, `body`, `source`,
    /// `context_extensions`, …); standard input where this is left out.
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let explained = match decide(args) {
        Ok(explained) => explained,
        Err(error) => {
            output::refuse(&error.to_string());
            return ExitCode::from(NEITHER);
        }
    };
    let text = if args.json {
        format!("{:#}", render::to_json(&explained))
    } else {
        render::to_text(&explained)
    };
    output::answer(&text);
    ExitCode::from(match explained.outcome {
        Outcome::Allow(_) => 0,
        Outcome::Deny(_) => 1,
        Outcome::Unavailable(_) => NEITHER,
    })
}

fn decide(args: &Args) -> Result<Explained, CliError> {
    let request = read(args)?;
    let (loaded, prepared) = load(&args.config)?;
    let runtime = app::runtime(&loaded.config).map_err(CliError::Runtime)?;
    Ok(runtime.block_on(prepared.explain(&request, loaded.config.check.budget.0)))
}

fn read(args: &Args) -> Result<Request, CliError> {
    let name = match &args.request {
        Some(path) => path.display().to_string(),
        None => "standard input".to_owned(),
    };
    let mut text = String::new();
    let read = match &args.request {
        Some(path) => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_DESCRIPTION).read_to_string(&mut text)),
        None => std::io::stdin().lock().take(MAX_DESCRIPTION).read_to_string(&mut text),
    };
    read.map_err(|error| CliError::Use(format!("{name} cannot be read: {error}")))?;
    let value = config::yaml_value(name.as_ref(), &text)?;
    let described: Described =
        serde_json::from_value(value).map_err(|e| CliError::Use(format!("{name}: {e}")))?;
    Ok(described.into())
}
