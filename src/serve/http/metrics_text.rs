//! Our own `OpenMetrics` text in the older text format (0.0.4), for scrapers that ask for it.

/// Whether `Accept` asks for the older format: it names `text/plain` with more weight than
/// `OpenMetrics`. Prometheus names both and prefers `OpenMetrics`.
pub(super) fn wants_classic(accept: &[u8]) -> bool {
    let Ok(accept) = std::str::from_utf8(accept) else { return false };
    let (mut classic, mut open) = (0.0_f32, 0.0_f32);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if kind.eq_ignore_ascii_case("text/plain") {
            classic = classic.max(weight);
        } else if kind.eq_ignore_ascii_case("application/openmetrics-text") {
            open = open.max(weight);
        }
    }
    classic > open
}

/// The older format has no units, exemplars and end, and a counter's family is called as its
/// series are.
pub(super) fn from_open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            // What kind of metric it is says the next line.
            help = line;
        } else if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap_or((family, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let about = help.splitn(4, ' ').nth(3).unwrap_or_default();
            let lines = [
                format!("# HELP {name}{suffix} {about}\n"),
                format!("# TYPE {name}{suffix} {kind}\n"),
            ];
            out.extend(lines);
        } else if !line.starts_with('#') {
            out.push_str(without_exemplar(line));
            out.push('\n');
        }
    }
    out
}

/// A series and its value. Labels may hold what an exemplar begins with, so its values are passed
/// over.
fn without_exemplar(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return line.get(..at).unwrap_or(line).trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_is_given_to_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, classic) in [
            ("", false),
            ("*/*", false),
            (prometheus, false),
            ("text/plain", true),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", true),
            ("Text/Plain; q=0.2, application/openmetrics-text; q=0.1", true),
            ("text/plain;q=0", false),
        ] {
            assert_eq!(wants_classic(accept.as_bytes()), classic, "{accept}");
        }
    }

    #[test]
    fn the_older_format_has_other_names_and_no_units_exemplars_and_end() {
        let open = "# HELP a_checks About it.\n# TYPE a_checks counter\n\
                    a_checks_total{r=\"x # {\\\"\"} 1 # {trace_id=\"7\"} 0.5 1.0\n\
                    # HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                    a_seconds_bucket{le=\"+Inf\"} 1 # {trace_id=\"7\"} 0.5\n# EOF\n";
        let classic = "# HELP a_checks_total About it.\n# TYPE a_checks_total counter\n\
                       a_checks_total{r=\"x # {\\\"\"} 1\n\
                       # HELP a_seconds Time.\n# TYPE a_seconds histogram\n\
                       a_seconds_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(from_open_metrics(open), classic);
    }
}
