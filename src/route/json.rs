//! JSON text for the policy input: compact, members sorted, numbers as they were written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::limits;
use crate::model::Refusal;

/// Collects JSON text and keeps it within the input's limits.
#[derive(Debug)]
pub(super) struct Writer {
    out: String,
    members: usize,
}

impl Writer {
    /// An empty text.
    pub(super) fn new() -> Self {
        Self { out: String::with_capacity(512), members: 0 }
    }

    /// The text so far.
    pub(super) fn as_str(&self) -> &str {
        &self.out
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes back everything after the first `len` bytes, a length that was read before.
    pub(super) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// Adds text that is JSON already, such as punctuation and known names.
    pub(super) fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Adds a string.
    pub(super) fn string(&mut self, text: &str) -> Result<(), Refusal> {
        if text.len() > limits::STRING_BYTES {
            return Err(limits::too_large("a string is too long"));
        }
        let plain = |b: u8| matches!(b, b' ' | b'!' | b'#'..=b'[' | b']'..=0xff);
        if text.bytes().fold(true, |all, b| all & plain(b)) {
            self.out.push('"');
            self.out.push_str(text);
            self.out.push('"');
        } else {
            self.out.push_str(&serde_json::Value::from(text).to_string());
        }
        self.value()
    }

    /// Counts one value and checks the size.
    pub(super) fn value(&mut self) -> Result<(), Refusal> {
        self.members += 1;
        if self.members > limits::MEMBERS {
            return Err(limits::too_large("there are too many values"));
        }
        if self.out.len() > limits::INPUT_BYTES {
            return Err(limits::too_large("there are too many bytes"));
        }
        Ok(())
    }

    /// Adds a list.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.raw("[");
        for (at, each) in items.into_iter().enumerate() {
            if at > 0 {
                self.raw(",");
            }
            item(self, each)?;
        }
        self.raw("]");
        self.value()
    }

    /// Adds a JSON value that was checked before, in its one spelling.
    pub(super) fn canonical(&mut self, json: &str) -> Result<(), Refusal> {
        match json.bytes().next() {
            Some(b'"') => self.string(&text(json).unwrap_or_default()),
            Some(b'[') => self.list(elements(json), |out, each| out.canonical(each.get())),
            Some(b'{') => self.object(json),
            _ => {
                self.raw(json);
                self.value()
            }
        }
    }

    fn object(&mut self, json: &str) -> Result<(), Refusal> {
        let members: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(json).unwrap_or_default();
        self.raw("{");
        for (at, (name, member)) in members.iter().enumerate() {
            if at > 0 {
                self.raw(",");
            }
            self.string(name)?;
            self.raw(":");
            self.canonical(member.get())?;
        }
        self.raw("}");
        self.value()
    }

    /// The finished text.
    pub(super) fn finish(self) -> Result<String, Refusal> {
        if self.out.len() > limits::INPUT_BYTES {
            return Err(limits::too_large("there are too many bytes"));
        }
        Ok(self.out)
    }
}

/// The text of a JSON string.
pub(super) fn text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// The elements of a JSON array.
pub(super) fn elements(json: &str) -> Vec<&RawValue> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Whether `text` is exactly one JSON number.
pub(super) fn is_number(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let ends = text.ends_with(|c: char| c.is_ascii_digit());
    starts && ends && serde_json::from_str::<&RawValue>(text).is_ok()
}
