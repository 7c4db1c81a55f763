//! What Envoy makes of a path, for `path.trust_envoy_normalisation`.
//!
//! Envoy's connection manager, in this order: `path_with_escaped_slashes_action:
//! UNESCAPE_AND_FORWARD` turns `%2F` into `/` and `%5C` into `\`; `normalize_path` turns `\` into
//! `/` and resolves dot segments, in which `%2e` counts as a dot and an empty segment as a segment;
//! `merge_slashes` then drops empty segments and keeps a final slash. What Envoy leaves as it is
//! (`;`, `%25`, controls) is under the same rules as without the setting.

/// Whether these steps could change the path.
pub(super) fn is_needed(path: &str) -> bool {
    path.contains("//") || path.contains("/.") || path.contains(['\\', '%'])
}

/// The path as Envoy would forward it.
pub(super) fn as_envoy(path: &str) -> String {
    let path = unescape_slashes(path);
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    for segment in path.strip_prefix('/').unwrap_or(&path).split('/') {
        match dots(segment) {
            0 => kept.push(segment),
            1 => {}
            _ => {
                kept.pop();
            }
        }
        last = segment;
    }
    let ends_in_dots = dots(last) != 0;
    if kept.iter().all(|s| s.is_empty()) && kept.len() + usize::from(ends_in_dots) > 1 {
        // Envoy keeps both the first and the last slash of a path that is nothing but slashes.
        return "//".to_owned();
    }
    let mut out = String::with_capacity(path.len());
    for segment in kept.iter().filter(|s| !s.is_empty()) {
        out.push('/');
        out.push_str(segment);
    }
    if ends_in_dots || last.is_empty() || out.is_empty() {
        out.push('/');
    }
    out
}

fn unescape_slashes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut pieces = path.split('%');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let escape = piece.get(..2).unwrap_or_default();
        if escape.eq_ignore_ascii_case("2f") || escape.eq_ignore_ascii_case("5c") {
            out.push('/');
            out.push_str(piece.get(2..).unwrap_or_default());
        } else {
            out.push('%');
            out.push_str(piece);
        }
    }
    out.replace('\\', "/")
}

/// 1 and 2 for the dot segments, in which `%2e` is a dot; 0 for any other.
fn dots(segment: &str) -> usize {
    let mut rest = segment;
    for count in 0..3 {
        if rest.is_empty() {
            return count;
        }
        let escaped = rest.get(..3).is_some_and(|e| e.eq_ignore_ascii_case("%2e"));
        let Some(next) = rest.strip_prefix('.').or_else(|| rest.get(3..).filter(|_| escaped))
        else {
            return 0;
        };
        rest = next;
    }
    0
}
