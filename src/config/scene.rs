//! What a message may say about a value: its text, unless it is a secret, and what was wanted.

use serde_json::Value;

use super::report::{Fault, segments};
use super::schema::Schema;
use super::suggest::{all, one_of};
use super::tree::Places;

/// Longest quotation of a value in a message, in characters.
const MAX_SHOWN: usize = 80;

/// One configuration under examination.
pub(super) struct Scene<'a> {
    pub(super) schema: &'a Schema,
    pub(super) value: &'a Value,
    pub(super) places: &'a Places,
}

impl Scene<'_> {
    /// A fault in the value at `pointer`.
    pub(super) fn fault(
        &self,
        pointer: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Fault {
        Fault::new(self.places.nearest(pointer), pointer, message, fix)
    }

    /// True where the value, or one around it, must not be shown.
    pub(super) fn is_secret(&self, pointer: &str) -> bool {
        let mut spot = self.schema.root();
        for segment in segments(pointer) {
            spot = self.schema.step(&spot, &segment);
            if spot.is_secret() {
                return true;
            }
        }
        false
    }

    /// The value at `pointer` as it was written, for use inside a sentence.
    pub(super) fn shown(&self, pointer: &str) -> String {
        if self.is_secret(pointer) {
            return "the secret".to_owned();
        }
        let plain = self.places.get(pointer).and_then(|place| place.plain.clone());
        match self.value.pointer(pointer) {
            Some(Value::Array(_)) => "this list".to_owned(),
            Some(Value::Object(_)) => "this map".to_owned(),
            Some(Value::String(text)) => quoted(text),
            Some(other) => format!("`{}`", plain.unwrap_or_else(|| other.to_string())),
            None => "this".to_owned(),
        }
    }

    /// What the schema wants at `pointer`, as something to write.
    pub(super) fn wanted(&self, pointer: &str) -> String {
        let spot = self.schema.at(pointer);
        let constants = spot.constants();
        let mut wanted: Vec<String> = Vec::new();
        for name in spot.types() {
            wanted.push(match name {
                "object" => match spot.keys().as_slice() {
                    [] => "a map (`key: value`)".to_owned(),
                    keys => format!("a map with keys out of {}", all(keys)),
                },
                "array" => "a list (`[a, b]`)".to_owned(),
                "string" if !constants.is_empty() => one_of(&constants),
                "string" => "text".to_owned(),
                "integer" => "a whole number".to_owned(),
                "boolean" => "true or false".to_owned(),
                other => format!("a {other}"),
            });
        }
        if wanted.is_empty() { String::new() } else { format!("write {}", wanted.join(", or ")) }
    }

    /// The pattern that text at `pointer` must match.
    pub(super) fn pattern(&self, pointer: &str) -> Option<String> {
        let spot = self.schema.at(pointer);
        spot.alternatives().iter().find_map(|a| Some(a.get("pattern")?.as_str()?.to_owned()))
    }
}

/// `text` in quotes, shortened where it is long.
fn quoted(text: &str) -> String {
    if text.chars().count() <= MAX_SHOWN {
        return format!("\"{text}\"");
    }
    let start: String = text.chars().take(MAX_SHOWN).collect();
    format!("\"{start}…\"")
}
