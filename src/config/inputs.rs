//! Which files and folders a configuration names.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Every value under a key `file`, `…_file` or `paths`, whatever its section: so that a new
/// section's files are watched without being listed anywhere. Relative paths start at `base`.
pub(super) fn of(value: &Value, base: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(value, base, &mut found);
    found
}

fn collect(value: &Value, base: &Path, found: &mut Vec<PathBuf>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, base, found)),
        Value::Object(object) => {
            for (key, item) in object {
                match item {
                    Value::String(path) if key == "file" || key.ends_with("_file") => {
                        found.push(base.join(path));
                    }
                    Value::Array(items) if key == "paths" => {
                        found.extend(items.iter().filter_map(Value::as_str).map(|p| base.join(p)));
                    }
                    other => collect(other, base, found),
                }
            }
        }
        _ => {}
    }
}
