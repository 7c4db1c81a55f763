//! `portcullis serve`: the service itself.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{CliError, load, output};
use crate::{app, telemetry};

/// Where the configuration is.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Serves until SIGTERM or SIGINT. Nothing listens before the whole configuration is sound.
pub(super) fn run(args: &Args) -> ExitCode {
    serve(args).map_or_else(|error| output::refuse(&error.to_string()), |()| ExitCode::SUCCESS)
}

fn serve(args: &Args) -> Result<(), CliError> {
    let look = app::Look::at(&args.config);
    let (loaded, prepared) = load(&args.config)?;
    let log = telemetry::init_log(&loaded.config.log);
    output::note(&loaded.notes().to_string());
    app::warn_of_past_dates(&loaded.config);
    let runtime = app::runtime(&loaded.config).map_err(CliError::Runtime)?;
    let ended = runtime.block_on(app::run(prepared, loaded, look, log));
    // A look-up of a name that hangs has a thread of its own, which must not keep the process.
    runtime.shutdown_background();
    Ok(ended?)
}
