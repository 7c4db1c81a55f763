//! `portcullis api-key`: a key for a caller of the decision API, and its hash.

use std::io::Read as _;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{CliError, output};
use crate::app::hash_of_key;

/// Longest key that is read.
const MAX_KEY: u64 = 4096;

/// What to print.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Hash the key on standard input (its first line) instead of making one.
    #[arg(long)]
    hash: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let made = if args.hash { hash() } else { make() };
    output::result(made.map_err(|error| error.to_string()))
}

/// 256 random bits: a hash without salt is enough for them.
fn make() -> Result<String, CliError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| CliError::Use(format!("there are no random bytes: {error}")))?;
    let key = URL_SAFE_NO_PAD.encode(bytes);
    let hash = hash_of_key(&key);
    Ok(format!("key:      {key}\nkey_hash: \"{hash}\"\n"))
}

fn hash() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_KEY)
        .read_to_string(&mut text)
        .map_err(|error| CliError::Use(format!("standard input cannot be read: {error}")))?;
    Ok(format!("{}\n", hash_of_key(text.lines().next().unwrap_or_default())))
}
