//! Metrics as they are served, taken apart.

#![expect(clippy::string_slice, reason = "what is read is ASCII; a wrong cut fails the test")]

use std::collections::{BTreeMap, BTreeSet};

/// One series and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: String,
}

/// Every series of an `OpenMetrics` text.
pub(super) fn samples(text: &str) -> Vec<Sample> {
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"").unwrap();
            let mut end = 0;
            while !after[end..].starts_with('"') {
                end += if after[end..].starts_with('\\') { 2 } else { 1 };
            }
            labels.insert(label.to_owned(), after[..end].to_owned());
            rest = &after[end + 1..];
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next().unwrap_or_else(|| panic!("{line}"));
    Sample { name: name.to_owned(), labels, value: value.to_owned() }
}

/// The names of the families: a counter's ends in `_total`.
pub(super) fn families(text: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some(if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
    };
    text.lines().filter_map(name).collect()
}

/// The family that a series belongs to.
pub(super) fn family<'n>(name: &'n str, families: &BTreeSet<String>) -> &'n str {
    let of = |suffix| name.strip_suffix(suffix).filter(|family| families.contains(*family));
    of("_bucket").or(of("_count")).or(of("_sum")).unwrap_or(name)
}

/// What was seen of a running binary, or of several.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    pub(super) families: BTreeSet<String>,
    /// Families of which a series came or changed its value.
    pub(super) moved: BTreeSet<String>,
    /// Values of each label of each series' name.
    pub(super) labels: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// The last text.
    pub(super) text: String,
    last: BTreeMap<(String, BTreeMap<String, String>), String>,
}

impl Seen {
    /// Adds what is served now; the first look is what later ones are held against.
    pub(super) fn look(&mut self, text: String) {
        self.families.append(&mut families(&text));
        let first = self.last.is_empty();
        let mut now = BTreeMap::new();
        for Sample { name, labels, value } in samples(&text) {
            let values = self.labels.entry(name.clone()).or_default();
            for (label, value) in &labels {
                values.entry(label.clone()).or_default().insert(value.clone());
            }
            now.insert((name, labels), value);
        }
        for (series, value) in &now {
            if !first && self.last.get(series) != Some(value) {
                self.moved.insert(family(&series.0, &self.families).to_owned());
            }
        }
        (self.last, self.text) = (now, text);
    }

    /// Adds what was seen of another binary.
    pub(super) fn join(&mut self, other: Self) {
        self.families.extend(other.families);
        self.moved.extend(other.moved);
        for (name, labels) in other.labels {
            let ours = self.labels.entry(name).or_default();
            for (label, values) in labels {
                ours.entry(label).or_default().extend(values);
            }
        }
    }
}
