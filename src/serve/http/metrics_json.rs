//! Our own `OpenMetrics` text as JSON, for people and scripts without a Prometheus.

use serde_json::{Map, Value, json};

/// `{"<family>": {"type", "help", "samples": [{"name", "labels", "value"}]}}`.
pub(super) fn from_open_metrics(text: &str) -> Value {
    let mut families = Map::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (kind, name, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
            let key = match kind {
                Some("HELP") => "help",
                Some("TYPE") => "type",
                _ => continue,
            };
            name.unwrap_or_default().clone_into(&mut current);
            let family = families.entry(current.as_str()).or_insert_with(|| json!({"samples": []}));
            family[key] = rest.into();
        } else if let Some(sample) = sample(line)
            && let Some(family) = families.get_mut(&current)
            && let Some(samples) = family["samples"].as_array_mut()
        {
            samples.push(sample);
        }
    }
    Value::Object(families)
}

fn sample(line: &str) -> Option<Value> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let mut labels = Map::new();
    let mut rest = rest;
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value.into());
            rest = after;
        }
        rest = rest.strip_prefix('}')?;
    }
    // An exemplar may follow the value.
    let value = rest.split_whitespace().next()?.parse::<f64>().ok()?;
    Some(json!({ "name": name, "labels": labels, "value": value }))
}

/// The text up to the closing quote, unescaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((out, chars.as_str())),
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                c => out.push(c),
            },
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_labels_and_values_come_over() {
        let metrics = crate::telemetry::Metrics::new();
        let took = std::time::Duration::from_micros(30);
        metrics.check_series("deny", "no_route", "a \"b\", c=\"}").observe(took);
        let value = from_open_metrics(&metrics.render().unwrap());
        let checks = &value["portcullis_checks"];
        assert_eq!(checks["type"], "counter");
        let sample = &checks["samples"][0];
        assert_eq!(sample["name"], "portcullis_checks_total");
        assert_eq!(sample["labels"]["route"], "a \"b\", c=\"}");
        assert_eq!(sample["value"], 1.0);
        let buckets = &value["portcullis_check_duration_seconds"]["samples"];
        assert!(buckets.as_array().unwrap().len() > 16);
    }
}
