//! What metrics tell of traces: counts of spans, and exemplars of the latency histograms, one
//! traced Check for each bucket.
//!
//! The library's own histogram with exemplars takes a second lock for every observation. This one
//! is beside the histograms, is told of traced Checks alone, and is put into the text as it is
//! rendered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::metrics::{Metrics, SECONDS};
use super::trace::hex_id;
use crate::clock::Now;
use crate::model::StageTime;

/// One traced observation.
#[derive(Debug, Clone, Copy)]
struct Exemplar {
    trace_id: u128,
    seconds: f64,
    at: f64,
}

/// A histogram and its one label's value; both are of few values.
type Key = (&'static str, &'static str);

/// The last exemplar of each bucket.
#[derive(Debug, Default)]
pub(super) struct Exemplars(Mutex<HashMap<Key, Vec<Option<Exemplar>>>>);

impl Exemplars {
    /// A traced Check made this observation, of a histogram with these upper `bounds`.
    pub(super) fn note(
        &self,
        (histogram, label): Key,
        bounds: &[f64],
        took: Duration,
        (trace_id, at): (u128, &Now),
    ) {
        let seconds = took.as_secs_f64();
        let bucket = bounds.iter().position(|bound| seconds <= *bound).unwrap_or(bounds.len());
        #[expect(clippy::cast_precision_loss, reason = "milliseconds are enough")]
        let at = (at.unix_nanos / 1_000_000) as f64 / 1_000.0;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = all.entry((histogram, label)).or_default();
        buckets.resize(bounds.len() + 1, None);
        if let Some(place) = buckets.get_mut(bucket) {
            *place = Some(Exemplar { trace_id, seconds, at });
        }
    }

    /// `text` with the exemplars at their buckets' lines.
    pub(super) fn put_into(&self, text: String) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return text;
        }
        let mut out = String::with_capacity(text.len() + 4096);
        // A histogram's buckets come one after the other.
        let mut last = ("", "");
        let mut bucket = 0;
        for line in text.lines() {
            out.push_str(line);
            if let Some(series) = series(line) {
                bucket = if series == last { bucket + 1 } else { 0 };
                last = series;
                let found = all.iter().find(|(key, _)| **key == series);
                if let Some(Some(exemplar)) = found.and_then(|(_, buckets)| buckets.get(bucket)) {
                    let Exemplar { trace_id, seconds, at } = exemplar;
                    let id = hex_id(*trace_id);
                    let _ = write!(out, " # {{trace_id=\"{id}\"}} {seconds} {at}");
                }
            }
            out.push('\n');
        }
        out
    }
}

impl Metrics {
    /// A Check that is traced as `trace_id` ended this way.
    pub fn exemplars(
        &self,
        outcome: &'static str,
        took: Duration,
        stages: &[StageTime],
        trace_id: u128,
        at: &Now,
    ) {
        let note = |series, took| self.traced.note(series, &SECONDS, took, (trace_id, at));
        note(("check_duration_seconds", outcome), took);
        for stage in stages {
            note(("stage_duration_seconds", stage.stage), stage.took);
        }
    }
}

/// What became of spans.
#[derive(Debug, Clone, Default)]
pub struct SpanCounts {
    /// The collector took them.
    pub exported: Counter,
    /// They were lost because the queue was full.
    pub dropped: Counter,
    /// They were lost because the collector did not take them.
    pub failed: Counter,
}

impl SpanCounts {
    pub(super) fn register(&self, r: &mut Registry) {
        for (name, help, counter) in [
            ("trace_spans_exported", "Spans that the collector took", &self.exported),
            ("trace_spans_dropped", "Spans lost because the queue was full", &self.dropped),
            (
                "trace_spans_failed",
                "Spans lost because the collector did not take them",
                &self.failed,
            ),
        ] {
            r.register(name, help, counter.clone());
        }
    }
}

/// Histogram and value of the first label of a bucket's line:
/// `portcullis_<histogram>_bucket{outcome="allow",le="0.001"} 3`.
fn series(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("portcullis_")?.split_once("_bucket{")?;
    let le = rest.find("le=\"")?;
    let labels = rest.split_once("=\"")?;
    let value = labels.1.split_once('"')?.0;
    // The bound may stand before or behind the label.
    let value = if le == 0 { rest.split("=\"").nth(2)?.split_once('"')?.0 } else { value };
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn an_exemplar_stands_at_its_bucket_and_nowhere_else() {
        let (metrics, now) = (Metrics::new(), Clock::manual(1_000).now());
        let took = Duration::from_micros(300);
        metrics.check_series("allow", "allowed", "r").observe(took);
        metrics.check_series("deny", "denied", "r").observe(took);
        assert!(!metrics.render().unwrap().contains("trace_id"));
        metrics.exemplars("allow", took, &[], 0xabc, &now);
        let text = metrics.render().unwrap();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("trace_id")).collect();
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(line.starts_with("portcullis_check_duration_seconds_bucket{"), "{line}");
        assert!(line.contains("outcome=\"allow\"") && line.contains("le=\"0.0005\""), "{line}");
        let id = hex_id(0xabc);
        assert!(line.ends_with(&format!(" 1 # {{trace_id=\"{id}\"}} 0.0003 1000")), "{line}");
        assert!(text.ends_with("# EOF\n"));
    }
}
