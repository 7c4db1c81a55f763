//! `portcullis serve`: the service itself.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{CliError, output};
use crate::config::Loaded;
use crate::serve::{self, Shutdown, bind};
use crate::{app, config, telemetry};

/// Where the configuration is.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Serves until SIGTERM or SIGINT. Nothing listens before the whole configuration is sound.
pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let loaded = config::load(&args.config)?;
    telemetry::init_log(&loaded.config.log);
    output::note(&loaded.notes().to_string());
    let runtime = app::runtime(&loaded.config).map_err(CliError::Runtime)?;
    runtime.block_on(until_stopped(&loaded))
}

async fn until_stopped(loaded: &Loaded) -> Result<ExitCode, CliError> {
    let (config, base) = (&loaded.config, loaded.base());
    let prepared = app::prepare(config, base).map_err(|found| loaded.report(found))?;
    let shutdown = Shutdown::on_signals()?;
    let bounds = bind(&config.listen)?;
    let doors = prepared.doors(config, base, bounds)?;
    let running = prepared.start();
    tracing::info!(
        check = ?config.listen.check,
        admin = ?config.listen.admin,
        configuration = loaded.revision(),
        policies = prepared.policy_revision().map_or("none", |revision| revision),
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    let drained = serve::run(doors, shutdown).await;
    running.stop().await;
    tracing::info!(complete = drained.complete, flushed = drained.flushed, "stopped");
    Ok(ExitCode::SUCCESS)
}
