//! The load driver: asks an `ext_authz` server directly, or anything through HTTP, checks every
//! answer, and says as JSON what it measured and whether the figure counts.
//!
//! With a rate the loop is open: requests begin when a fixed schedule says so, whatever came of
//! those before, and latency counts from that moment, so that a server that stalls cannot hide
//! the requests that it held up.
#![expect(clippy::print_stdout, reason = "a command-line tool prints its answer")]

mod connection;
mod deck;
mod drive;
mod plan;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use deck::Deck;
use drive::Driven;
use plan::Plan;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Anything = Box<dyn std::error::Error + Send + Sync>;

/// Drives load by a plan. Exits with 2 where the figure is void.
#[derive(Debug, Parser)]
struct Args {
    /// The plan, a JSON file; `load/README.md` describes it.
    plan: PathBuf,
}

/// Share of its own threads' time above which the driver is the bottleneck of a closed loop.
const BUSY: f64 = 0.97;
/// Least share of the schedule that was begun by its end.
const KEPT: f64 = 0.98;
/// What 99 % of the schedule may lag behind itself, microseconds: more is the driver's own
/// slowness, or the machine's.
const LAG: u64 = 5_000;

/// Seconds of CPU that this process has used (`/proc/self/stat`, in 1/100 s), where it can be
/// known.
fn cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |n: usize| fields.get(n)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let of = |q| histogram.value_at_quantile(q);
    json!({
        "p50": of(0.5), "p75": of(0.75), "p90": of(0.9), "p95": of(0.95), "p99": of(0.99),
        "p999": of(0.999), "max": histogram.max(), "mean": histogram.mean(),
    })
}

/// The distribution, as (share, microseconds) of ever rarer requests.
fn curve(histogram: &Histogram<u64>) -> Vec<Value> {
    histogram
        .iter_quantiles(4)
        .map(|step| json!([step.quantile_iterated_to(), step.value_iterated_to()]))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests and microseconds are small")]
fn told(shape: &Shape, deck: &Deck, driven: &Driven) -> Value {
    let Driven { tally, began, planned, lag } = driven;
    let answered = tally.latency.len();
    let took = tally.last.map_or(0.0, |last| last.saturating_duration_since(*began).as_secs_f64());
    let busy = shape.cpu.zip(cpu()).map(|(before, after)| (after - before) / took.max(0.001));
    let names = deck.kinds();
    let answers: Vec<Value> = tally
        .answers
        .iter()
        .map(|((place, said), n)| {
            let kind = names.get(*place).map_or("", |kind| &kind.name);
            json!({ "ask": kind, "status": said.status, "reason": said.reason, "sets": said.sets,
                "count": n })
        })
        .collect();
    let mut void = Vec::new();
    if answered == 0 {
        void.push("nothing was answered".to_owned());
    }
    if tally.wrong > 0 {
        void.push(format!("{} of {answered} answers were wrong", tally.wrong));
    }
    let worst = lag.value_at_quantile(0.99);
    if shape.open && worst > LAG {
        void.push(format!("saturated: the schedule lagged {worst} us behind itself"));
    }
    if shape.open && took > 0.0 {
        // In time means: within the run. What queued up behind busy places began after its end.
        let rate = answered as f64 / took;
        if rate < KEPT * shape.rate {
            void.push(format!("saturated: {rate:.0} requests a second of {:.0}", shape.rate));
        }
        // Places were busy, or the tokens came to their end.
        if answered < *planned {
            void.push(format!(
                "saturated: {} of {planned} requests never began",
                planned - answered
            ));
        }
    }
    let saturated = busy.is_some_and(|busy| busy > BUSY * shape.threads as f64);
    if shape.open && saturated {
        void.push("saturated: the driver had no CPU time left".to_owned());
    }
    json!({
        "answered": answered, "planned": planned, "seconds": took,
        "rate": answered as f64 / took.max(1e-9), "wrong": tally.wrong, "shown": tally.shown,
        "answers": answers, "latency_us": quantiles(&tally.latency), "curve": curve(&tally.latency),
        "late_us": shape.open.then(|| quantiles(&tally.late)),
        "lag_us": shape.open.then(|| quantiles(lag)), "driver_cpu": busy,
        "driver_saturated": saturated, "void": void,
    })
}

/// What the verdict needs of the plan.
struct Shape {
    open: bool,
    rate: f64,
    threads: usize,
    cpu: Option<f64>,
}

/// Plays a plan that was found sound.
async fn drive(plan: Plan) -> Result<Value, Anything> {
    let deck = Arc::new(Deck::new(&plan)?);
    let shape = Shape {
        open: plan.rate.is_some(),
        rate: plan.rate.unwrap_or_default(),
        threads: plan.threads,
        cpu: cpu(),
    };
    let driven = drive::run(plan, Arc::clone(&deck)).await?;
    Ok(told(&shape, &deck, &driven))
}

fn run(args: &Args) -> Result<bool, Anything> {
    let text = std::fs::read_to_string(&args.plan)?;
    let plan: Plan = serde_json::from_str(&text)?;
    plan.check()?;
    let runtime = if plan.threads == 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?
    } else {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(plan.threads).enable_all().build()?
    };
    let told = runtime.block_on(drive(plan))?;
    println!("{told}");
    Ok(told.get("void").and_then(Value::as_array).is_some_and(Vec::is_empty))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            println!("{}", json!({ "void": [error.to_string()] }));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
