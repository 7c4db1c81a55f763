//! Protobuf, written in one pass into the one buffer that leaves.
//!
//! The generated types want every name and value of an answer in a string of its own, and their
//! metadata in hash maps; an answer is made for every Check and read once, by Envoy. So it is
//! written from what is borrowed. A test decodes what is written by the generated types.

use bytes::Bytes;

/// Before a message in gRPC over HTTP/2: a compression flag and a length.
const FRAME: usize = 5;

/// Longest varint of 64 bits.
const MAX_VARINT: usize = 10;

/// One gRPC frame with one message in it. A field whose value is the default is written too
/// (but see [`Writer::number`]): presence is the caller's word.
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// An empty message, with room for `capacity` bytes before it grows.
    pub(super) fn new(capacity: usize) -> Self {
        let mut out = Vec::with_capacity(FRAME + capacity);
        out.resize(FRAME, 0);
        Self { out }
    }

    /// The frame.
    pub(super) fn finish(mut self) -> Bytes {
        let length = self.out.len().saturating_sub(FRAME);
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        if let Some(place) = self.out.get_mut(1..FRAME) {
            place.copy_from_slice(&length);
        }
        self.out.into()
    }

    /// A number; zero is left out, as it is what an absent number means.
    pub(super) fn number(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.out.push(field << 3);
            self.varint(value);
        }
    }

    /// A number, zero too: for a `oneof`, where presence means something.
    pub(super) fn number_of_one(&mut self, field: u8, value: u64) {
        self.out.push(field << 3);
        self.varint(value);
    }

    /// A floating-point number of a `oneof`.
    pub(super) fn double_of_one(&mut self, field: u8, value: f64) {
        self.out.push(field << 3 | 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Text or bytes.
    pub(super) fn text(&mut self, field: u8, value: &str) {
        self.out.push(field << 3 | 2);
        self.varint(value.len() as u64);
        self.out.extend_from_slice(value.as_bytes());
    }

    /// Part of a text that [`Writer::message`] writes.
    pub(super) fn bytes(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.out.extend(bytes);
    }

    /// A message, or a text, that `content` writes.
    pub(super) fn message(&mut self, field: u8, content: impl FnOnce(&mut Self)) {
        self.out.push(field << 3 | 2);
        let at = self.out.len();
        // Most lengths fit one byte; a longer one moves what follows it.
        self.out.push(0);
        content(self);
        let length = self.out.len().saturating_sub(at + 1);
        if let (Ok(length @ ..0x80), Some(place)) = (u8::try_from(length), self.out.get_mut(at)) {
            *place = length;
            return;
        }
        let (bytes, used) = varint(length as u64);
        self.out.splice(at..=at, bytes.into_iter().take(used));
    }

    fn varint(&mut self, value: u64) {
        if let Ok(byte @ ..0x80) = u8::try_from(value) {
            return self.out.push(byte);
        }
        let (bytes, used) = varint(value);
        self.out.extend(bytes.into_iter().take(used));
    }
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
fn varint(mut value: u64) -> ([u8; MAX_VARINT], usize) {
    let mut bytes = [0; MAX_VARINT];
    let mut used = 0;
    for byte in &mut bytes {
        used += 1;
        *byte = u8::try_from(value & 0x7f).unwrap_or(0x7f);
        value >>= 7;
        if value == 0 {
            break;
        }
        *byte |= 0x80;
    }
    (bytes, used)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::{ListValue, Value, value::Kind};
    use prost::Message as _;

    use super::*;

    #[test]
    fn lengths_and_numbers_of_every_size_are_what_prost_reads() {
        for size in [0, 1, 127, 128, 129, 16_383, 16_384, 2_100_000] {
            let text = "x".repeat(size);
            let mut writer = Writer::new(16);
            writer.message(6, |list| {
                list.message(1, |value| value.text(3, &text));
                list.message(1, |value| value.number_of_one(1, 0));
                list.message(1, |value| value.number_of_one(4, 1));
                list.message(1, |value| value.double_of_one(2, -1.5));
            });
            let frame = writer.finish();
            let (prefix, message) = frame.split_at(FRAME);
            assert_eq!(prefix[0], 0);
            assert_eq!(prefix[1..], u32::try_from(message.len()).unwrap().to_be_bytes());
            let kinds = [
                Kind::StringValue(text),
                Kind::NullValue(0),
                Kind::BoolValue(true),
                Kind::NumberValue(-1.5),
            ];
            let values = kinds.map(|kind| Value { kind: Some(kind) }).to_vec();
            let expected = Value { kind: Some(Kind::ListValue(ListValue { values })) };
            assert_eq!(Value::decode(message).unwrap(), expected, "{size}");
        }
        for value in [1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let (bytes, used) = varint(value);
            assert_eq!(
                prost::decode_length_delimiter(&bytes[..used]).ok(),
                usize::try_from(value).ok()
            );
        }
    }
}
