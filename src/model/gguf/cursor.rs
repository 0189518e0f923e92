//! Reading numbers and strings from bytes that may say anything.

use crate::model::error::Problem;

/// A position in a file; every read is checked against what is left.
pub(super) struct Cursor<'a> {
    file: &'a [u8],
    offset: usize,
}

/// An error at a byte of the file.
pub(super) fn malformed(offset: usize, field: &str, expected: impl ToString, found: impl ToString) -> Problem {
    Problem::Malformed {
        offset: offset as u64,
        field: field.to_owned(),
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a [u8]) -> Self {
        Self { file, offset: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn file_length(&self) -> usize {
        self.file.len()
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: usize, field: &str) -> Result<&'a [u8], Problem> {
        let rest = self.file.get(self.offset..).unwrap_or_default();
        let Some(taken) = rest.get(..length) else {
            let found = format!("{} bytes before the end of the file", rest.len());
            return Err(malformed(self.offset, field, format!("{length} bytes"), found));
        };
        self.offset += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &str) -> Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, field)?);
        Ok(bytes)
    }

    pub(super) fn u8(&mut self, field: &str) -> Result<u8, Problem> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self, field: &str) -> Result<u16, Problem> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &str) -> Result<u32, Problem> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &str) -> Result<u64, Problem> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A 64-bit count of things that take at least `smallest` bytes each, so that it cannot exceed what is left.
    pub(super) fn count(&mut self, field: &str, smallest: usize) -> Result<usize, Problem> {
        let start = self.offset;
        let count = self.u64(field)?;
        let left = self.file.len() - self.offset;
        match usize::try_from(count) {
            Ok(count) if count <= left / smallest => Ok(count),
            _ => Err(malformed(start, field, format!("at most {} in the {left} bytes left", left / smallest), count)),
        }
    }

    /// A string: 64-bit length, then UTF-8.
    pub(super) fn text(&mut self, field: &str) -> Result<&'a str, Problem> {
        let length = self.count(field, 1)?;
        let start = self.offset;
        let bytes = self.take(length, field)?;
        std::str::from_utf8(bytes)
            .map_err(|error| malformed(start + error.valid_up_to(), field, "UTF-8", "an invalid sequence"))
    }
}
