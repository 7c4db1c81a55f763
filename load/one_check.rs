//! Makes Checks in process, one after the other, for an instruction counter to watch: message in,
//! message out, through the same gate, journey, audit and rendering as the check door's, without
//! connections. `load/instructions` runs it under callgrind.
#![expect(clippy::print_stdout, reason = "a command-line tool says what it did")]

#[path = "driver/wire.rs"]
mod wire;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use portcullis::audit::Audit;
use portcullis::config::{self, Config};
use portcullis::serve::{Gate, answer};
use portcullis::{app, telemetry};

use wire::{Asked, Said};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Checks that are made before the first that counts.
const BEFORE: usize = 64;

type Anything = Box<dyn Error + Send + Sync>;

/// Makes Checks in process. Everything that does not depend on `count` is the same for every
/// count, so that the difference of two counts is that many Checks and nothing else.
#[derive(Debug, Parser)]
struct Args {
    /// The configuration.
    #[arg(long)]
    config: PathBuf,
    /// File of tokens, one a line, each of another user; the first is everybody's in warm Checks.
    #[arg(long)]
    tokens: PathBuf,
    /// How many Checks.
    #[arg(long)]
    count: usize,
    /// Every Check brings another token than those before it.
    #[arg(long)]
    cold: bool,
    /// Path and query that is asked for.
    #[arg(long, default_value = "/cwms-data/timeseries?office=SPK&name=Elev")]
    path: String,
}

struct Bench {
    gate: Gate,
    config: Config,
}

impl Bench {
    async fn check(&self, message: Bytes) -> Result<Bytes, Anything> {
        let call = Request::builder()
            // Under the counter a Check takes long, and no deadline is what is measured.
            .header("grpc-timeout", "60S")
            .header("content-type", "application/grpc")
            .body(Full::new(message))?;
        let limit = self.config.limits.max_check_size.as_usize();
        let answer = answer(&self.gate, self.config.envoy, limit, call).await;
        Ok(answer.into_body().collect().await?.to_bytes())
    }
}

fn expect_allow(answer: &[u8]) -> Result<(), Anything> {
    match wire::said(answer) {
        Some(Said { status: 200, sets: true, .. }) => Ok(()),
        other => Err(format!("no allow: {other:?}").into()),
    }
}

/// The value of a series, from the metrics as text.
fn counter(metrics: &telemetry::Metrics, series: &[&str]) -> Result<usize, Anything> {
    let text = metrics.render()?;
    let mut sum = 0;
    for line in text.lines().filter(|line| series.iter().all(|part| line.contains(part))) {
        sum += line.rsplit(' ').next().unwrap_or_default().parse::<usize>()?;
    }
    Ok(sum)
}

async fn run(args: Args) -> Result<(), Anything> {
    let loaded = config::load(&args.config).map_err(|report| report.to_string())?;
    let prepared =
        app::prepare(&loaded.config, loaded.base()).map_err(|p| loaded.report(p).to_string())?;
    let running = prepared.start();
    let tokens = std::fs::read_to_string(&args.tokens)?;
    let messages: Vec<Bytes> = tokens
        .lines()
        .map(|token| {
            let (method, path) = ("GET", &*args.path);
            wire::message(&Asked { method, path, token, headers: &[], body: &[] })
        })
        .collect();
    let metrics = &prepared.metrics;
    // Every event has its place, however late the writer's thread comes to run.
    let queue = (args.count + BEFORE) * 2;
    let audit = Audit::to_stream(Box::new(std::io::sink()), queue, Arc::clone(metrics))?;
    let bench = Bench { gate: prepared.gate(&loaded.config, audit), config: loaded.config };

    let first = messages.first().ok_or("no token")?;
    for message in messages.iter().take(2) {
        expect_allow(&bench.check(message.clone()).await?)?;
    }
    for _ in 2..BEFORE {
        bench.check(first.clone()).await?;
    }
    let mut last = Bytes::new();
    if args.cold {
        let rest = messages.get(2..2 + args.count).ok_or("not enough tokens")?;
        for message in rest {
            last = bench.check(message.clone()).await?;
        }
    } else {
        for _ in 0..args.count {
            last = bench.check(first.clone()).await?;
        }
    }
    expect_allow(&last)?;
    let all = args.count + BEFORE;
    let allowed = counter(metrics, &["portcullis_checks_total{", "outcome=\"allow\""])?;
    let hits =
        counter(metrics, &["portcullis_cache_requests_total{", "cache=\"decision\"", "\"hit\""])?;
    let misses = if args.cold { args.count + 2 } else { 2 };
    if (allowed, hits) != (all, all - misses) {
        return Err(format!("{allowed} allows and {hits} hits of {all} Checks").into());
    }
    println!("{} Checks, {hits} of {all} from memory", args.count);
    running.stop().await;
    Ok(())
}

fn main() -> Result<(), Anything> {
    let args = Args::parse();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(args))
}
