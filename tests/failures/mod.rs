//! The table *dependency × failure × answer* of `deploy/README.md`, played: every row is a fault
//! of a part behind the real binary and a real Envoy, and every cell of it is looked at.

mod keys;
mod opa;
mod redis;
mod server;
mod users;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::harness::{Answer, Ask, World, files};

/// So often each row is asked.
const ASKED: u32 = 4;
/// Time of a Check in these worlds (`check.budget`) and what a busy machine takes on top.
const LATEST: Duration = Duration::from_secs(3 + 2);
/// The README promises five seconds; the rest is for a busy machine.
const RECOVERY: Duration = Duration::from_secs(5 + 3);
/// What takes its time to be felt: keys and contexts serve on until they end.
const FELT: Duration = Duration::from_secs(25);

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    dependency: String,
    failure: String,
    status: u16,
    reason: Option<String>,
    envoy: String,
    audit: String,
    mark: String,
    calls: String,
}

/// The rows of the README.
fn rows() -> Vec<Row> {
    let text = files::shipped("deploy/README.md");
    let table = text.split("\n| dependency | failure |").nth(1).expect("the table");
    table.lines().skip(2).map_while(|line| line.strip_prefix("| ")).map(row).collect()
}

fn row(line: &str) -> Row {
    let parts: Vec<String> = line.split(" |").map(|cell| cell.trim().replace('`', "")).collect();
    let [dependency, failure, status, reason, envoy, audit, mark, calls, rest] =
        parts.try_into().unwrap_or_else(|parts| panic!("{line}: {parts:?}"));
    assert!(rest.is_empty(), "{line}");
    let given = |cell: String| (cell != "–").then_some(cell);
    Row {
        dependency,
        failure,
        status: status.parse().unwrap(),
        reason: given(reason),
        envoy,
        audit,
        mark: given(mark).unwrap_or_default(),
        calls,
    }
}

/// A world in which one part breaks.
trait Part {
    /// How the table calls it, with its setting.
    fn name(&self) -> &'static str;
    /// How the metrics call it.
    fn dependency(&self) -> &'static str;
    fn world(&self) -> &World;
    /// What is there before the fault.
    fn prepare(&mut self, _failure: &str) {}
    fn begin(&mut self, failure: &str);
    fn end(&mut self, failure: &str);
    /// A request that feels the fault.
    fn ask(&mut self, failure: &str) -> Ask;
    /// Whether a request that needs the part is answered from it, and nothing is left of the fault.
    fn is_well(&mut self) -> bool;
    /// What else the row says.
    fn look(&mut self, _failure: &str) {}
}

/// Plays every row of `part`.
fn play(part: &mut dyn Part) {
    let rows: Vec<_> = rows().into_iter().filter(|row| row.dependency == part.name()).collect();
    assert!(!rows.is_empty(), "{} is not in the table", part.name());
    for row in rows {
        println!("{} / {}", row.dependency, row.failure);
        until("it is well before", FELT, || part.is_well());
        part.prepare(&row.failure);
        // A process that is not there now counts from nothing.
        let there = part.world().portcullis.is_some();
        let calls = if there { calls(part, &row) } else { 0.0 };
        part.begin(&row.failure);
        felt(part, &row, calls);
        part.look(&row.failure);
        part.end(&row.failure);
        until("it recovers", RECOVERY, || part.is_well());
    }
}

/// What is counted of a world's Checks.
struct Counts {
    envoy: [u64; 3],
    checks: f64,
    marked: f64,
    audited: usize,
}

/// How many calls to the part ended as the row says.
fn calls(part: &dyn Part, row: &Row) -> f64 {
    let dependency = format!("dependency=\"{}\"", part.dependency());
    let outcome = format!("outcome=\"{}\"", row.calls);
    part.world().metric("portcullis_dependency_calls_total", &[&dependency, &outcome])
}

fn counts(part: &dyn Part, row: &Row) -> Counts {
    let world = part.world();
    let audit = format!("outcome=\"{}\"", row.audit);
    let reason = row.reason.as_ref().map(|reason| format!("reason=\"{reason}\""));
    let labels: Vec<&str> = std::iter::once(audit.as_str()).chain(reason.as_deref()).collect();
    let mark = format!("mark=\"{}\"", row.mark);
    let mark: &[&str] = if row.mark.is_empty() { &[] } else { &[&mark] };
    Counts {
        envoy: world.counts(),
        checks: world.metric("portcullis_checks_total", &labels),
        marked: world.metric("portcullis_degraded_answers_total", mark),
        audited: world.audited().len(),
    }
}

fn shows(answer: &Answer, row: &Row) -> bool {
    answer.status == row.status && answer.header("x-authz-degraded") == row.mark
}

/// The fault is on: what every party sees of it.
/// `calls_before` is what was counted before it began.
fn felt(part: &mut dyn Part, row: &Row, calls_before: f64) {
    if row.mark == "stale" || row.dependency.starts_with("keys") {
        until(&format!("{row:?} is felt"), FELT, || {
            let ask = part.ask(&row.failure);
            shows(&part.world().ask(ask), row)
        });
    }
    let settled = |part: &dyn Part| {
        let checks = part.world().metric("portcullis_audit_events_written_total", &[]);
        let made = part.world().metric("portcullis_checks_total", &[]);
        (checks - made).abs() < 0.1
    };
    until("audit is written", FELT, || settled(part));
    let before = counts(part, row);
    for _ in 0..ASKED {
        let ask = part.ask(&row.failure);
        let start = Instant::now();
        let answer = part.world().ask(ask);
        let took = start.elapsed();
        assert!(shows(&answer, row), "{row:?}: {answer:?}");
        assert!(took < LATEST, "{row:?}: {took:?}");
        if answer.status >= 400 {
            assert_eq!(Some(answer.reason()), row.reason, "{row:?}: {answer:?}");
        }
        if answer.status == 503 {
            let after = answer.header("retry-after").parse::<u32>();
            // What the dependency asks for is passed on.
            assert!(after.is_ok_and(|after| row.failure != "429" || after == 7), "{answer:?}");
        }
    }
    until("audit is written", FELT, || settled(part));
    let after = counts(part, row);
    let asked = u64::from(ASKED);
    let events = part.world().audited().split_off(before.audited);
    assert_eq!(events.len() as u64, asked, "{row:?}");
    let expected = ["ok", "denied", "error"].map(|name| if name == row.envoy { asked } else { 0 });
    let envoy: Vec<_> = after.envoy.iter().zip(before.envoy).map(|(a, b)| a - b).collect();
    assert_eq!(envoy, expected, "{row:?}");
    let moved = |after: f64, before: f64| after - before;
    let checks = moved(after.checks, before.checks);
    assert!((checks - f64::from(ASKED)).abs() < 0.1, "{row:?}: {checks} Checks counted");
    let marked = moved(after.marked, before.marked);
    let wanted = if row.mark.is_empty() { 0.0 } else { f64::from(ASKED) };
    assert!((marked - wanted).abs() < 0.1, "{row:?}: {marked} marked answers counted");
    for event in &events {
        assert_eq!(event["outcome"], *row.audit, "{row:?}: {event}");
        assert_eq!(event["status"], row.status, "{row:?}: {event}");
        if let Some(reason) = &row.reason {
            assert_eq!(event["reason"], **reason, "{row:?}: {event}");
        }
        let marks = event["caches"].to_string().contains(&format!("\"{}\"", row.mark));
        assert_eq!(marks, !row.mark.is_empty(), "{row:?}: {event}");
    }
    // Keys are fetched beside the Checks.
    until(&format!("{row:?}: calls"), FELT, || calls(part, row) > calls_before + 0.5);
}

fn until(what: &str, patience: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < patience, "never: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn s8_1_the_table_names_every_part_and_each_row_once() {
    let rows = rows();
    let names: BTreeSet<_> = rows.iter().map(|row| row.dependency.as_str()).collect();
    let played = [keys::NAMES, users::NAMES, redis::NAMES, opa::NAMES].concat();
    assert_eq!(names, played.into_iter().collect::<BTreeSet<_>>());
    let once: BTreeSet<_> = rows.iter().map(|row| (&row.dependency, &row.failure)).collect();
    assert_eq!(once.len(), rows.len());
    for row in &rows {
        // What is unavailable is an error to Envoy and 503; nobody else gets either.
        let kinds = [row.status == 503, row.envoy == "error", row.audit == "unavailable"];
        assert!(kinds == [true; 3] || kinds == [false; 3], "{row:?}");
        assert_eq!(row.status == 200, row.envoy == "ok" && row.audit == "allow", "{row:?}");
    }
}
