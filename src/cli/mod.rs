//! Subcommands of the binary. Each is a file; what it prints goes through `output`.

mod check_config;
mod decide;
mod described;
mod output;
mod render;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::audit::AuditError;
use crate::config::Report;
use crate::serve::{BindError, ServeError};

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
    Bind(#[from] BindError),
    #[error("{0}")]
    Audit(#[from] AuditError),
    #[error("{0}")]
    Serve(#[from] ServeError),
}

/// Runs what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => {
            serve::run(&args).unwrap_or_else(|e| output::refuse(&e.to_string()))
        }
        Command::Decide(args) => decide::run(&args),
        Command::CheckConfig(args) => check_config::run(&args),
        Command::Schema => output::result(crate::config::schema_json()),
        Command::ConfigReference => output::result(crate::config::reference_markdown()),
    }
}
