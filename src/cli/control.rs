//! `portcullis control …`: operates a running process.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::{CliError, output};
use crate::model::Digest;
use crate::serve::control::messages::invalidate_request::Target as Wanted;
use crate::serve::control::messages::{Everything, InvalidateRequest, StatusResponse, User};
use crate::serve::control::{Client, ClientError, Target, TlsFiles};

/// Where the door is, and what is to be done.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The control door: `unix:/path`, or `host:port` with the three files.
    #[arg(long, default_value = "unix:/run/portcullis/control.sock", global = true)]
    address: String,
    /// Roots that sign the door's certificate, PEM.
    #[arg(long, value_name = "FILE", global = true)]
    ca_file: Option<PathBuf>,
    /// Our certificate, PEM.
    #[arg(long, value_name = "FILE", global = true)]
    certificate_file: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
    /// Name in the door's certificate, where it is not the host of `--address`.
    #[arg(long, global = true)]
    server_name: Option<String>,
    #[command(subcommand)]
    call: Call,
}

#[derive(Debug, Subcommand)]
enum Call {
    /// Forgets what was kept, at every replica; exits 1 where others could not be told.
    Invalidate {
        #[command(subcommand)]
        what: What,
    },
    /// Reads the configuration again; exits 1 where it is not good, and the last one stays.
    Reload,
    /// Says how the process stands.
    Status,
    /// Logs by another level or filter until the process ends.
    LogLevel {
        /// `error`, `warn`, `info`, `debug`, `trace`, or `target=level,…`.
        level: String,
    },
}

#[derive(Debug, Subcommand)]
enum What {
    /// One user, whatever the token.
    User {
        /// The exact `iss` of the tokens.
        issuer: String,
        /// The exact `sub` of the tokens.
        subject: String,
    },
    /// One token, read from standard input; or its hash.
    Token {
        /// BLAKE3 hash of the token in hexadecimal, in place of the token.
        #[arg(long)]
        hash: Option<String>,
    },
    /// All that came by an issuer's tokens.
    Issuer {
        /// The exact `iss` of the tokens.
        issuer: String,
    },
    /// Decisions at one route.
    Route {
        /// Its configured name.
        route: String,
    },
    /// Everything.
    Everything,
}

/// Makes one call and prints its answer.
pub(super) fn run(args: &Args) -> ExitCode {
    match call(args) {
        Ok((text, true)) => output::answer(&text),
        Ok((text, false)) => output::refuse(&text),
        Err(error) => output::refuse(&error.to_string()),
    }
}

fn call(args: &Args) -> Result<(String, bool), CliError> {
    let target = args.target()?;
    let wanted = match &args.call {
        Call::Invalidate { what } => Some(what.read()?),
        _ => None,
    };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(CliError::Runtime)?;
    let answered = runtime.block_on(async {
        let client = Client::connect(&target).await?;
        answer(&client, &args.call, wanted).await
    });
    answered.map_err(|error| CliError::Use(error.to_string()))
}

async fn answer(
    client: &Client,
    call: &Call,
    wanted: Option<Wanted>,
) -> Result<(String, bool), ClientError> {
    Ok(match call {
        Call::Invalidate { .. } => {
            let done = client.invalidate(InvalidateRequest { target: wanted }).await?;
            let unknown =
                "\nthe configuration in force here has no such issuer or route: is it misspelt?";
            let unknown = if done.unknown { unknown } else { "" };
            (format!("invalidated; generation {}{unknown}", done.generation), true)
        }
        Call::Reload => {
            let done = client.reload().await?;
            let mut lines = done.problems.clone();
            if done.applied {
                let policies = named(&done.policies);
                lines.push(format!(
                    "in force: configuration {}, policies {policies}",
                    done.configuration
                ));
            } else {
                lines.push("the reload failed; the last good configuration stays".to_owned());
            }
            if !done.ignored.is_empty() {
                let names = done.ignored.join(", ");
                lines.push(format!(
                    "these values change only when the process starts again: {names}"
                ));
            }
            (lines.join("\n"), done.applied)
        }
        Call::Status => (shown(&client.status().await?), true),
        Call::LogLevel { level } => {
            let set = client.set_log_level(level.clone()).await?;
            (format!("logs by {}", set.level), true)
        }
    })
}

fn named(revision: &str) -> &str {
    if revision.is_empty() { "none" } else { revision }
}

fn shown(status: &StatusResponse) -> String {
    let word = match (status.draining, status.ready) {
        (true, _) => "draining",
        (false, true) => "ready",
        (false, false) => "not ready",
    };
    let heard = if status.subscribed { "heard" } else { "not heard" };
    let mut lines = vec![
        format!("portcullis {}, {word}, up {} s", status.version, status.uptime_seconds),
        format!("configuration {}, policies {}", status.configuration, named(&status.policies)),
        format!("invalidations of other replicas {heard}, generation {}", status.generation),
        format!("log {}", status.log_level),
    ];
    lines.extend(status.doors.iter().map(|door| format!("door {} {}", door.name, door.address)));
    let part = |part: &crate::serve::control::messages::Part| {
        let word = if part.ready { "ok" } else { "not ok" };
        format!("part {} {word}: {}", part.name, part.state)
    };
    lines.extend(status.parts.iter().map(part));
    let cache = |cache: &crate::serve::control::messages::Cache| {
        format!("cache {} {} entries, {} bytes", cache.name, cache.entries, cache.bytes)
    };
    lines.extend(status.caches.iter().map(cache));
    lines.join("\n")
}

impl Args {
    fn target(&self) -> Result<Target, CliError> {
        if let Some(path) = self.address.strip_prefix("unix:") {
            return Ok(Target::Unix(path.into()));
        }
        let files = (&self.ca_file, &self.certificate_file, &self.key_file);
        let (Some(ca), Some(certificate), Some(key)) = files else {
            let text = "an address that is no Unix socket needs --ca-file, --certificate-file and \
                        --key-file";
            return Err(CliError::Use(text.to_owned()));
        };
        let (ca, certificate, key) = (ca.clone(), certificate.clone(), key.clone());
        let name = self.server_name.clone();
        Ok(Target::Tls(self.address.clone(), TlsFiles { ca, certificate, key, name }))
    }
}

impl What {
    /// As the door takes it. A token is hashed here: it leaves this process no more.
    fn read(&self) -> Result<Wanted, CliError> {
        Ok(match self {
            Self::User { issuer, subject } => {
                Wanted::User(User { issuer: issuer.clone(), subject: subject.clone() })
            }
            Self::Token { hash: Some(hash) } => Wanted::TokenHash(hash.clone()),
            Self::Token { hash: None } => {
                let mut text = String::new();
                let read = std::io::stdin().take(1 << 20).read_to_string(&mut text);
                read.map_err(|error| CliError::Use(format!("the token cannot be read: {error}")))?;
                let token = text.trim();
                if token.is_empty() {
                    let text = "there is no token on standard input";
                    return Err(CliError::Use(text.to_owned()));
                }
                Wanted::TokenHash(Digest::plain(token.as_bytes()).to_hex())
            }
            Self::Issuer { issuer } => Wanted::Issuer(issuer.clone()),
            Self::Route { route } => Wanted::Route(route.clone()),
            Self::Everything => Wanted::Everything(Everything {}),
        })
    }
}
