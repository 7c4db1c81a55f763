//! Header fields, kept where they came.

use bytes::Bytes;

/// Header fields. With Envoy's `encode_raw_headers` a repeated field keeps its entries;
/// without, Envoy has joined them by commas already.
///
/// A field is two places in the text that all of them came in: no field costs an allocation or a
/// count of references. Names are lower-case.
#[derive(Clone, Default)]
pub struct Headers {
    text: Bytes,
    /// What is not in `text`. Its places go on behind those of `text`.
    own: Vec<u8>,
    fields: Vec<Field>,
}

/// Fields of a usual request.
const USUAL: usize = 32;

#[derive(Clone, Copy)]
struct Field {
    name: Place,
    value: Place,
}

#[derive(Clone, Copy)]
struct Place {
    at: usize,
    length: usize,
}

/// One header field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'h> {
    /// Lower-case name; always UTF-8.
    pub name: &'h [u8],
    /// The raw value; may hold any byte.
    pub value: &'h [u8],
}

impl<'h> Header<'h> {
    /// The name as text.
    #[must_use]
    pub fn name(&self) -> &'h str {
        std::str::from_utf8(self.name).unwrap_or_default()
    }
}

impl std::fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be credentials.
        write!(f, "{}: [{} bytes]", self.name(), self.value.len())
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.fields()).finish()
    }
}

impl Headers {
    /// No fields yet; those that are slices of `text` will not be copied.
    #[must_use]
    pub fn within(text: &Bytes) -> Self {
        Self { text: text.clone(), own: Vec::new(), fields: Vec::new() }
    }

    /// Copies fields.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.push(name.as_bytes(), value);
        }
        headers
    }

    /// Adds a field. A name that is not lower-case UTF-8 is made so.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let name = if name.iter().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
            self.place(name)
        } else {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            self.keep(name.as_bytes())
        };
        let value = self.place(value);
        if self.fields.capacity() == 0 {
            self.fields.reserve(USUAL);
        }
        self.fields.push(Field { name, value });
    }

    /// Where `part` is; it is copied if it is no slice of the text.
    fn place(&mut self, part: &[u8]) -> Place {
        let at = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let length = part.len();
        let is_within = at.checked_add(length).is_some_and(|end| end <= self.text.len());
        if is_within { Place { at, length } } else { self.keep(part) }
    }

    fn keep(&mut self, part: &[u8]) -> Place {
        let at = self.text.len() + self.own.len();
        self.own.extend_from_slice(part);
        Place { at, length: part.len() }
    }

    fn get(&self, place: Place) -> &[u8] {
        let Place { at, length } = place;
        let found = match at.checked_sub(self.text.len()) {
            // An empty part may lie at the end of the text.
            Some(at) => self.own.get(at..at + length),
            None => self.text.get(at..at + length),
        };
        found.unwrap_or_default()
    }

    fn field(&self, field: &Field) -> Header<'_> {
        Header { name: self.get(field.name), value: self.get(field.value) }
    }

    fn named<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h Field> {
        let wanted = name.as_bytes();
        self.fields
            .iter()
            .filter(move |f| f.name.length == wanted.len() && self.get(f.name) == wanted)
    }

    /// Every value of `name` (lower-case).
    pub fn all<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        self.named(name).map(|field| self.get(field.value))
    }

    /// The first value of `name` (lower-case).
    #[must_use]
    pub fn first<'h>(&'h self, name: &str) -> Option<&'h [u8]> {
        self.all(name).next()
    }

    /// Whether a field of that name (lower-case) is there.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.named(name).next().is_some()
    }

    /// All fields, in the order in which they were added.
    pub fn fields(&self) -> impl Iterator<Item = Header<'_>> {
        self.fields.iter().map(|field| self.field(field))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Drops the fields that `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(Header<'_>) -> bool) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.retain(|field| keep(self.field(field)));
        self.fields = fields;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_what_was_added_wherever_they_lie() {
        let text = Bytes::from_static(b"x-a1X-B22x-empty");
        let part = |from: usize, to: usize| text.get(from..to).unwrap();
        let mut headers = Headers::within(&text);
        headers.push(part(0, 3), part(3, 4));
        headers.push(part(4, 7), part(7, 9));
        headers.push(b"x-far", part(7, 9));
        headers.push(part(9, 16), part(16, 16));
        headers.push(b"x-far", b"away");
        headers.push(b"X-\xff", b"");
        let expected: [(&str, &[u8]); 6] = [
            ("x-a", b"1"),
            ("x-b", b"22"),
            ("x-far", b"22"),
            ("x-empty", b""),
            ("x-far", b"away"),
            ("x-\u{fffd}", b""),
        ];
        let fields: Vec<_> = headers.fields().map(|h| (h.name(), h.value)).collect();
        assert_eq!(fields, expected);
        assert_eq!(headers.all("x-far").collect::<Vec<_>>(), [&b"22"[..], b"away"]);
        assert_eq!((headers.first("x-b"), headers.first("x-c")), (Some(&b"22"[..]), None));
        headers.retain(|field| field.name() != "x-far");
        assert!(!headers.contains("x-far") && headers.len() == 4);
        let copied = Headers::from_pairs(expected);
        assert!(
            copied
                .fields()
                .eq(expected.map(|(name, value)| Header { name: name.as_bytes(), value }))
        );
    }

    #[test]
    fn a05_debug_output_shows_no_value() {
        let headers = Headers::from_pairs([("authorization", &b"Bearer marker"[..])]);
        assert_eq!(format!("{headers:?}"), "[authorization: [13 bytes]]");
    }
}
