//! Secrets that stand in files of their own: `value_file: /run/secrets/key` beside `value`.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::report::{Fault, child};
use super::schema::{Schema, Spot};
use super::tree::Places;

/// Largest file that a `*_file` key may name, in bytes.
const MAX_SECRET: u64 = 64 << 10;

/// Replaces each `x_file`, where the schema also knows `x`, by `x` with the text of that file (one
/// line end at its end apart). Relative paths start at `base`.
pub(super) fn resolve(
    value: &mut Value,
    places: &mut Places,
    schema: &Schema,
    base: &Path,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut walk = Walk { places, schema, base, faults: &mut faults };
    walk.value(value, "", &schema.root());
    faults
}

struct Walk<'w> {
    places: &'w mut Places,
    schema: &'w Schema,
    base: &'w Path,
    faults: &'w mut Vec<Fault>,
}

impl<'w> Walk<'w> {
    fn value(&mut self, value: &mut Value, pointer: &str, spot: &Spot<'w>) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let segment = index.to_string();
                    let next = self.schema.step(spot, &segment);
                    self.value(item, &child(pointer, &segment), &next);
                }
            }
            Value::Object(object) => {
                self.twins(object, pointer, spot);
                for (key, item) in object.iter_mut() {
                    let next = self.schema.step(spot, key);
                    self.value(item, &child(pointer, key), &next);
                }
            }
            _ => {}
        }
    }

    fn twins(
        &mut self,
        object: &mut serde_json::Map<String, Value>,
        pointer: &str,
        spot: &Spot<'w>,
    ) {
        let known = spot.keys();
        let twins: Vec<(String, String)> = object
            .iter()
            .filter(|(_, value)| value.is_string())
            .filter_map(|(key, _)| Some((key.clone(), key.strip_suffix("_file")?.to_owned())))
            .filter(|(key, stem)| known.contains(&key.as_str()) && known.contains(&stem.as_str()))
            .collect();
        for (key, stem) in twins {
            let at = child(pointer, &key);
            if object.contains_key(&stem) {
                let message = format!("both `{stem}` and `{key}` are given");
                let fix = format!("keep `{key}`, which leaves the value out of this file");
                self.faults.push(Fault::new(self.places.key(&at), at, message, fix));
                continue;
            }
            let Some(Value::String(path)) = object.remove(&key) else { continue };
            match read(&self.base.join(&path)) {
                Ok(text) => {
                    self.places.stand_in(&child(pointer, &stem), &at);
                    object.insert(stem, Value::String(text));
                }
                Err(why) => {
                    let message = format!("the file \"{path}\" {why}");
                    let fix = "name a readable file; relative paths start at this file's folder";
                    self.faults.push(Fault::new(self.places.nearest(&at), at, message, fix));
                }
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |e: std::io::Error| format!("cannot be read: {e}");
    // Asked before it is opened: opening a FIFO would wait for a writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_SECRET + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_SECRET {
        return Err(format!("is larger than {MAX_SECRET} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |t| t.strip_suffix('\r').unwrap_or(t));
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// `value` without its secrets, for a revision that may be published.
pub(super) fn without(value: &Value, schema: &Schema) -> Value {
    fn strip<'a>(value: &Value, spot: &Spot<'a>, schema: &'a Schema) -> Value {
        if spot.is_secret() {
            return Value::Null;
        }
        match value {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(i, item)| strip(item, &schema.step(spot, &i.to_string()), schema))
                .collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, item)| (key.clone(), strip(item, &schema.step(spot, key), schema)))
                .collect(),
            other => other.clone(),
        }
    }
    strip(value, &schema.root(), schema)
}
