//! The `headers` section.

use schemars::JsonSchema;
use serde::Deserialize;

use super::headers::{MAX_SEPARATORS, is_reserved, is_token, separators};
use crate::model::{HumanSize, Problem};

/// Which request headers policies may set, and how large a value may be.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeadersConfig {
    /// Every request header that a decision may set, lower-case. On every allow each of them is
    /// set or removed, in every spelling that a backend might take for it.
    pub managed: Vec<String>,
    /// Largest value of one header that a decision sets. A larger one makes the answer a denial;
    /// nothing is ever cut.
    pub max_value: HumanSize,
}

impl Default for HeadersConfig {
    fn default() -> Self {
        Self { managed: Vec::new(), max_value: HumanSize(6 << 10) }
    }
}

impl HeadersConfig {
    /// What is wrong with the section, as far as it can be seen without I/O.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, name) in self.managed.iter().enumerate() {
            let at = format!("/managed/{index}");
            if !is_token(name) {
                let message = format!("`{name}` is not a lower-case header name");
                let fix = match name.to_ascii_lowercase() {
                    lower if is_token(&lower) => format!("write it as `{lower}`"),
                    _ => "use lower-case letters, digits and hyphens".to_owned(),
                };
                problems.push(Problem::new(at, message, fix));
            } else if is_reserved(name) {
                let message = format!("`{name}` belongs to HTTP or to Envoy");
                problems.push(Problem::new(at, message, "choose a header name of your own"));
            } else if separators(name) > MAX_SEPARATORS {
                let message = format!("`{name}` has too many spellings with `-` and `_`");
                let fix = format!("use at most {MAX_SEPARATORS} hyphens in the name");
                problems.push(Problem::new(at, message, fix));
            } else if self.managed.iter().take(index).any(|other| same_name(other, name)) {
                let message = format!("`{name}` is declared twice");
                problems.push(Problem::new(at, message, "declare each header once"));
            }
        }
        if self.max_value.0 == 0 || self.max_value.0 > 64 << 10 {
            let message = format!("{} is not between 1B and 64KiB", self.max_value);
            let fix = "stay below the backend's own header limit; 6KiB suits most";
            problems.push(Problem::new("/max_value", message, fix));
        }
        problems
    }
}

/// Whether a backend might take one name for the other.
fn same_name(a: &str, b: &str) -> bool {
    super::headers::fold(a.as_bytes()).eq(super::headers::fold(b.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_malformed_and_doubled_names_are_refused() {
        let managed =
            ["X-Upper", ":path", "host", "x-envoy-a", "a b", "", "x-a", "x_a", "x-a-b-c-d-e-f-g-h"];
        let config = HeadersConfig {
            managed: managed.map(str::to_owned).to_vec(),
            ..HeadersConfig::default()
        };
        let pointers: Vec<_> = config.problems().into_iter().map(|p| p.pointer).collect();
        let expected = [
            "/managed/0",
            "/managed/1",
            "/managed/2",
            "/managed/3",
            "/managed/4",
            "/managed/5",
            "/managed/7",
            "/managed/8",
        ];
        assert_eq!(pointers, expected);
    }
}
