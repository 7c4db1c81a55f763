//! What the process itself uses, read from the system at each scrape, under the names that
//! Prometheus' own clients give it. Where there is no `/proc`, there are none of these.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Ticks of a second in `/proc`: what the kernel shows is scaled to this on every machine.
const TICKS: f64 = 100.0;

/// Reads `/proc/self`.
#[derive(Debug)]
pub(super) struct Process;

#[derive(Debug, Default, PartialEq)]
struct Usage {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    resident_bytes: Option<f64>,
    threads: Option<f64>,
    open_files: Option<f64>,
    max_files: Option<f64>,
}

impl Usage {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let files = fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
        // The listing itself holds one.
        let open_files = files.and_then(|n| u32::try_from(n.saturating_sub(1)).ok());
        Self {
            open_files: open_files.map(f64::from),
            ..Self::of(
                &text("/proc/self/stat"),
                &text("/proc/stat"),
                &text("/proc/self/status"),
                &text("/proc/self/limits"),
            )
        }
    }

    fn of(own: &str, system: &str, status: &str, limits: &str) -> Self {
        // The name in brackets may hold anything; fields are counted from behind it.
        let fields = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = |place: usize| fields.split_whitespace().nth(place)?.parse::<f64>().ok();
        let value = |text: &str, name: &str, place: usize| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().nth(place)?.parse::<f64>().ok()
        };
        let (used, began) = (ticks(11).zip(ticks(12)), ticks(19));
        let booted = value(system, "btime", 0);
        Self {
            cpu_seconds: used.map(|(user, kernel)| (user + kernel) / TICKS),
            start_seconds: booted.zip(began).map(|(booted, began)| booted + began / TICKS),
            resident_bytes: value(status, "VmRSS:", 0).map(|kib| kib * 1024.0),
            threads: value(status, "Threads:", 0),
            open_files: None,
            max_files: value(limits, "Max open files", 0),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let usage = Usage::read();
        let (seconds, bytes) = (Some(Unit::Seconds), Some(Unit::Bytes));
        if let Some(value) = usage.cpu_seconds {
            let (name, about) = ("process_cpu", "Time of processors used.");
            let metric = ConstCounter::new(value);
            metric.encode(encoder.encode_descriptor(
                name,
                about,
                seconds.as_ref(),
                metric.metric_type(),
            )?)?;
        }
        let gauges = [
            ("process_start_time", "When the process began.", seconds, usage.start_seconds),
            ("process_resident_memory", "Memory held.", bytes, usage.resident_bytes),
            ("process_threads", "Threads of the process.", None, usage.threads),
            ("process_open_fds", "Open files and sockets.", None, usage.open_files),
            ("process_max_fds", "Files and sockets that may be open.", None, usage.max_files),
        ];
        for (name, about, unit, value) in gauges {
            let Some(value) = value else { continue };
            let metric = ConstGauge::new(value);
            let encoder =
                encoder.encode_descriptor(name, about, unit.as_ref(), metric.metric_type())?;
            metric.encode(encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let own = "7 (odd) name) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 5 0 2000 1 2 3";
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t5\n";
        let limits =
            "Limit  Soft  Hard  Units\nMax open files            1024     4096     files\n";
        let usage = Usage::of(own, "cpu 1 2\nbtime 1700000000\n", status, limits);
        let expected = Usage {
            cpu_seconds: Some(2.0),
            start_seconds: Some(1_700_000_020.0),
            resident_bytes: Some(2_097_152.0),
            threads: Some(5.0),
            open_files: None,
            max_files: Some(1024.0),
        };
        assert_eq!(usage, expected);
        assert_eq!(Usage::of("", "", "", "unlimited"), Usage::default());
    }
}
