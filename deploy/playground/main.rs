//! What the quickstart and the load figures need around Portcullis: throw-away keys, tokens
//! signed by them, and a backend that also plays the user API.
#![expect(clippy::print_stdout, reason = "a command-line tool prints its answer")]

#[path = "kit.rs"]
mod kit;

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use serde_json::Value;
use tokio::net::TcpListener;

use kit::backend::Backend;
use kit::keys::Keys;
use kit::spans::Spans;
use kit::token::Signer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Throw-away keys, tokens and a backend.
#[derive(Debug, Parser)]
enum Command {
    /// Writes new keys and their public key set.
    Keys {
        /// Folder to write to.
        dir: PathBuf,
    },
    /// Prints a signed token, or one a line for as many users.
    Token(TokenArgs),
    /// Serves the echo, the user API (/user/profile) and the counters (/stats).
    Backend {
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:7000")]
        listen: String,
        /// Answer everything else with the same few bytes.
        #[arg(long)]
        fixed: bool,
        /// Count the values of this request header.
        #[arg(long)]
        watch: Option<String>,
        /// Send spans to the OTLP/HTTP collector at this address.
        #[arg(long)]
        collector: Option<String>,
    },
    /// Draws a trace, as Jaeger's API returns it on standard input, as SVG on standard output.
    Draw,
}

#[derive(Debug, clap::Args)]
struct TokenArgs {
    /// Folder that `keys` wrote.
    #[arg(long)]
    keys: PathBuf,
    /// Who signs.
    #[arg(long, value_enum, default_value = "rsa")]
    signer: SignerArg,
    /// The claim `iss`.
    #[arg(long)]
    issuer: String,
    /// The claim `aud`.
    #[arg(long)]
    audience: String,
    /// The claim `preferred_username`; `sub` follows from it.
    #[arg(long)]
    user: String,
    /// So many tokens, of `USER.0`, `USER.1` and so on.
    #[arg(long, value_name = "USERS")]
    count: Option<u32>,
    /// Seconds until it expires; negative for one that has expired.
    #[arg(long, default_value = "3600", allow_hyphen_values = true)]
    expires: i64,
    /// A further claim as `name=value`; the value is JSON, or else text.
    #[arg(long)]
    claim: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SignerArg {
    Rsa,
    Ec,
    Forger,
}

/// Reads what [`Keys::write`] wrote.
fn read(dir: &Path) -> Result<Keys, kit::Error> {
    let der = |name| -> Result<Vec<u8>, kit::Error> {
        let path = dir.join(name);
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
        Ok(STANDARD.decode(body)?)
    };
    Ok(Keys {
        rsa: RsaKeyPair::from_pkcs8(&der("rsa.pem")?)?,
        ec: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der("ec.pem")?)?,
        forger: RsaKeyPair::from_pkcs8(&der("forger.pem")?)?,
    })
}

fn tokens(args: &TokenArgs) -> Result<(), kit::Error> {
    let keys = read(&args.keys)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for n in 0..args.count.unwrap_or(1) {
        let user = args.count.map_or(args.user.clone(), |_| format!("{}.{n}", args.user));
        writeln!(out, "{}", token(&keys, args, &user)?)?;
    }
    Ok(out.flush()?)
}

fn token(keys: &Keys, args: &TokenArgs, user: &str) -> Result<String, kit::Error> {
    let mut claims = kit::token::claims(&args.issuer, &args.audience, user, args.expires);
    for claim in &args.claim {
        let (name, text) = claim.split_once('=').ok_or("a claim is name=value")?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        claims.insert(name.to_owned(), value);
    }
    let signer = match args.signer {
        SignerArg::Rsa => Signer::Rsa,
        SignerArg::Ec => Signer::Ec,
        SignerArg::Forger => Signer::Forger,
    };
    kit::token::sign(keys, signer, &claims)
}

#[tokio::main]
async fn main() -> Result<(), kit::Error> {
    match Command::parse() {
        Command::Keys { dir } => Keys::make()?.write(&dir),
        Command::Token(args) => tokens(&args),
        Command::Backend { listen, fixed, watch, collector } => {
            let listener =
                TcpListener::bind(&listen).await.map_err(|e| format!("{listen}: {e}"))?;
            println!("backend on {listen}");
            let backend = Backend::new(fixed, watch);
            if let Some(collector) = collector {
                drop(backend.spans.set(Spans::new(&collector)));
            }
            kit::backend::serve(listener, backend).await;
            Ok(())
        }
        Command::Draw => {
            let traces: Value = serde_json::from_reader(std::io::stdin())?;
            print!("{}", kit::draw::svg(&traces)?);
            Ok(())
        }
    }
}
