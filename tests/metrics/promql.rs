//! What a `PromQL` expression names. Whether it is one says promtool.

#![expect(clippy::string_slice, reason = "what is read is ASCII; a wrong cut fails the test")]

use std::collections::BTreeSet;

/// `label op "value"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) label: String,
    pub(super) operator: String,
    pub(super) value: String,
}

/// What an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Metrics with their matchers.
    pub(super) metrics: Vec<(String, Vec<Matcher>)>,
    /// Labels that it groups or joins by.
    pub(super) labels: BTreeSet<String>,
}

const GROUPS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const WORDS: [&str; 9] = ["and", "or", "unless", "offset", "bool", "atan2", "inf", "nan", "NaN"];

/// The names in `expression`.
pub(super) fn names(expression: &str) -> Names {
    let mut names = Names::default();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        if is_name(first) && !first.is_ascii_digit() {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            rest = rest[end..].trim_start();
            if GROUPS.contains(&word) {
                let (inside, after) = rest[1..].split_once(')').unwrap();
                let labels = inside.split(',').map(str::trim).filter(|label| !label.is_empty());
                names.labels.extend(labels.map(str::to_owned));
                rest = after;
            } else if !WORDS.contains(&word) && !is_function(rest) {
                let (matchers, after) = matchers(rest);
                names.metrics.push((word.to_owned(), matchers));
                rest = after;
            }
        } else if first.is_ascii_digit() {
            // A number or a duration, with its unit.
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
        } else if first == '[' {
            rest = rest.split_once(']').unwrap().1;
        } else if first == '"' {
            rest = quoted(rest).1;
        } else {
            rest = &rest[first.len_utf8()..];
        }
        rest = rest.trim_start();
    }
    names
}

/// Whether a name with this behind it is a function's, or an aggregation's with its labels.
fn is_function(rest: &str) -> bool {
    let grouped =
        |group: &str| rest.strip_prefix(group).is_some_and(|r| r.trim_start().starts_with('('));
    rest.starts_with('(') || GROUPS.into_iter().any(grouped)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn quoted(text: &str) -> (&str, &str) {
    text[1..].split_once('"').unwrap_or_else(|| panic!("no end: {text}"))
}

fn matchers(text: &str) -> (Vec<Matcher>, &str) {
    let mut found = Vec::new();
    let Some(mut rest) = text.strip_prefix('{') else { return (found, text) };
    loop {
        rest = rest.trim_start_matches([',', ' ', '\n']);
        if let Some(after) = rest.strip_prefix('}') {
            return (found, after);
        }
        let end = rest.find(['=', '!']).unwrap_or_else(|| panic!("no operator: {text}"));
        let value = rest.find('"').unwrap();
        let (label, operator) = (rest[..end].trim(), rest[end..value].trim());
        let (value, after) = quoted(&rest[value..]);
        let [label, operator, value] = [label, operator, value].map(str::to_owned);
        found.push(Matcher { label, operator, value });
        rest = after;
    }
}

#[test]
fn names_are_found() {
    let found = names(
        r#"histogram_quantile(0.95, sum without (le2, pod) (rate(a_bucket{x="1",y!~"b|c"}[5m]))) > 30 * 1e3
           and on(z) (c or vector(0)) == bool d{}"#,
    );
    let metrics: Vec<_> =
        found.metrics.iter().map(|(name, of)| (name.as_str(), of.len())).collect();
    assert_eq!(metrics, [("a_bucket", 2), ("c", 0), ("d", 0)]);
    assert_eq!(found.metrics[0].1[1].operator, "!~");
    assert_eq!(found.labels.into_iter().collect::<Vec<_>>(), ["le2", "pod", "z"]);
}
