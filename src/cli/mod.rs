//! Subcommands of the binary. Each is a file; what it prints goes through `output`.

mod api_key;
mod check_config;
mod control;
mod decide;
mod described;
mod output;
mod render;
mod serve;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::app::{self, Prepared};
use crate::config::{self, Environment, Loaded, Report};

/// An Envoy external-authorization service.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answers Envoy until SIGTERM or SIGINT.
    Serve(serve::Args),
    /// Makes one Check without Envoy and shows what each stage did; exits 0 for an allow, 1 for
    /// a denial, 2 otherwise.
    Decide(decide::Args),
    /// Checks a configuration as `serve` would, opens nothing; exits 0 or 1.
    CheckConfig(check_config::Args),
    /// Operates a running process by its control door.
    Control(control::Args),
    /// Makes a key for the decision API and prints it with the hash for `key_hash`.
    ApiKey(api_key::Args),
    /// Prints the JSON Schema of the configuration.
    Schema,
    /// Prints the configuration reference as Markdown.
    ConfigReference,
}

/// Why a subcommand could not do its work.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] Report),
    #[error("{0}")]
    Use(String),
    #[error("the runtime's threads cannot be started: {0}")]
    Runtime(std::io::Error),
    #[error("{0}")]
    Start(#[from] app::StartError),
}

/// Reads the configuration and builds what it describes, as every subcommand that decides does:
/// all that is wrong is in one report.
fn load(file: &Path) -> Result<(Loaded, Prepared), Report> {
    let loaded = config::load_with(file, &Environment::of_process(), app::probe)?;
    let prepared =
        app::prepare(&loaded.config, loaded.base()).map_err(|found| loaded.report(found))?;
    Ok((loaded, prepared))
}

/// Runs what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Decide(args) => decide::run(&args),
        Command::CheckConfig(args) => check_config::run(&args),
        Command::Control(args) => control::run(&args),
        Command::ApiKey(args) => api_key::run(&args),
        Command::Schema => output::result(config::schema_json()),
        Command::ConfigReference => output::result(config::reference_markdown()),
    }
}
