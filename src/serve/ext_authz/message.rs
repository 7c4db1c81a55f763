//! Protobuf, read where it lies.
//!
//! The generated types copy every header into strings of its own and into a hash map, and make
//! whatever a message says before anybody can say that it is too much. Here a message is walked
//! field by field, and what is kept is a slice of it.

/// The bytes are no message of this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// A field's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'b> {
    /// A number.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'b [u8]),
    /// A number of fixed width; no field that we read has one.
    Fixed,
}

impl<'b> Part<'b> {
    /// The number, of a field that is one.
    pub(super) fn number(self) -> Result<u64, Malformed> {
        if let Self::Number(number) = self { Ok(number) } else { Err(Malformed) }
    }

    /// The bytes, of a field that holds bytes or a message.
    pub(super) fn bytes(self) -> Result<&'b [u8], Malformed> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(Malformed) }
    }

    /// The text, of a field that is a string.
    pub(super) fn text(self) -> Result<&'b str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }
}

/// The fields of one message, in the order in which they were written. Groups, which no message
/// of Envoy has, are malformed.
pub(super) struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    /// Of a message's bytes.
    pub(super) fn of(message: &'b [u8]) -> Self {
        Self(message)
    }

    /// The next field's number and content; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Part<'b>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let part = match key & 7 {
            0 => Part::Number(self.varint()?),
            1 => self.take(8).map(|_| Part::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Part::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Part::Fixed)?,
            _ => return Err(Malformed),
        };
        match key >> 3 {
            0 => Err(Malformed),
            number => Ok(Some((number, part))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Seven bits a byte, the lowest first, in ten bytes at most.
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                // The tenth byte has room for one bit.
                return if shift == 63 && *byte > 1 { Err(Malformed) } else { Ok(value) };
            }
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Part<'_>)>, Malformed> {
        let (mut fields, mut all) = (Fields::of(message), Vec::new());
        while let Some(field) = fields.next()? {
            all.push(field);
        }
        Ok(all)
    }

    #[test]
    fn numbers_are_what_prost_reads_them_as() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let mut message = vec![9 << 3];
            prost::encoding::encode_varint(value, &mut message);
            assert_eq!(all(&message), Ok(vec![(9, Part::Number(value))]));
        }
    }

    #[test]
    fn s3_6_what_is_no_message_is_malformed() {
        let messages: [&[u8]; 12] = [
            &[0xff],
            &[8],
            &[8, 0x80],
            &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
            &[10, 1],
            &[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[9, 0, 0, 0, 0, 0, 0, 0],
            &[13, 0, 0, 0],
            &[11],
            &[15],
            &[2, 0],
        ];
        for message in messages {
            assert_eq!(all(message), Err(Malformed), "{message:?}");
        }
        assert_eq!(all(&[9, 0, 0, 0, 0, 0, 0, 0, 0]), Ok(vec![(1, Part::Fixed)]));
        assert_eq!(all(&[]), Ok(vec![]));
    }
}
