//! `portcullis check-config`: everything that `serve` does before it opens a port. A route whose
//! date is past is a fault here alone.

use std::path::PathBuf;
use std::process::ExitCode;

use super::output;
use crate::app;
use crate::config::Report;

/// Which file to check.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Prints one line and exits 0, or prints every fault and exits 1.
pub(super) fn run(args: &Args) -> ExitCode {
    match check(args) {
        Ok(line) => output::answer(&line),
        Err(report) => output::refuse(&report.to_string()),
    }
}

fn check(args: &Args) -> Result<String, Report> {
    let (loaded, prepared) = super::load(&args.config)?;
    let past = app::past_dates(&loaded.config);
    if !past.is_empty() {
        return Err(loaded.report(past));
    }
    output::note(&loaded.notes().to_string());
    let file = args.config.display();
    let (routes, revision) = (loaded.config.routes.len(), loaded.revision());
    let policies = prepared.policy_revision().map_or("none", |revision| revision);
    let routes = if routes == 1 { "1 route".to_owned() } else { format!("{routes} routes") };
    Ok(format!("{file}: ok, {routes}, configuration {revision}, policies {policies}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/config/minimal.yaml");

    #[test]
    fn a_sound_file_is_one_line() {
        let said = check(&Args { config: MINIMAL.into() }).unwrap();
        assert!(said.starts_with(&format!("{MINIMAL}: ok, 2 routes, ")), "{said}");
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn a_file_with_faults_is_a_report() {
        let report = check(&Args { config: "/does/not/exist.yaml".into() }).unwrap_err();
        assert_eq!(report.faults().len(), 1);
    }
}
