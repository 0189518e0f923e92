//! The `full` tier: a logits row, lossless for every bit pattern.
//!
//! Bytes of equal significance are brought together before compression: the exponents of a row repeat, the low bytes
//! of the fractions do not.

use super::limits::MAX_ROW_LENGTH;
use super::records::LogitsPayload;

/// zstd level: higher ones gain nothing on logits.
const LEVEL: i32 = 1;
/// Bytes of one logit.
const WIDTH: usize = size_of::<f32>();

/// Why a `full` payload is no row.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// It claims too much.
    #[error("a row of {0} logits; at most {MAX_ROW_LENGTH} are accepted")]
    TooLong(u64),
    /// It does not decompress.
    #[error("the row's bytes do not decompress: {0}")]
    Zstd(std::io::Error),
    /// It decompresses to something else.
    #[error("the row decompresses to {found} bytes, expected {expected}")]
    Length {
        /// Four bytes per logit.
        expected: usize,
        /// What came out.
        found: usize,
    },
}

/// The payload that holds `row`, bit for bit.
pub fn encode_full(row: &[f32]) -> Result<LogitsPayload, RowError> {
    let length = u32::try_from(row.len()).ok().filter(|length| *length as usize <= MAX_ROW_LENGTH);
    let length = length.ok_or(RowError::TooLong(row.len() as u64))?;
    let bytes = zstd::bulk::compress(&shuffle(row), LEVEL).map_err(RowError::Zstd)?;
    Ok(LogitsPayload::Full { length, bytes })
}

/// The row of a [`LogitsPayload::Full`].
pub fn decode_full(length: u32, bytes: &[u8]) -> Result<Vec<f32>, RowError> {
    if length as usize > MAX_ROW_LENGTH {
        return Err(RowError::TooLong(length.into()));
    }
    let expected = length as usize * WIDTH;
    let shuffled = zstd::bulk::decompress(bytes, expected).map_err(RowError::Zstd)?;
    if shuffled.len() != expected {
        return Err(RowError::Length { expected, found: shuffled.len() });
    }
    Ok(unshuffle(&shuffled))
}

/// All lowest bytes, then all second bytes, and so on.
fn shuffle(row: &[f32]) -> Vec<u8> {
    let mut shuffled = vec![0; row.len() * WIDTH];
    if row.is_empty() {
        return shuffled;
    }
    for (plane_index, plane) in shuffled.chunks_exact_mut(row.len()).enumerate() {
        let shift = 8 * plane_index as u32;
        for (byte, value) in plane.iter_mut().zip(row) {
            *byte = (value.to_bits() >> shift) as u8;
        }
    }
    shuffled
}

fn unshuffle(shuffled: &[u8]) -> Vec<f32> {
    let length = shuffled.len() / WIDTH;
    let mut bits = vec![0_u32; length];
    if length == 0 {
        return Vec::new();
    }
    for (plane_index, plane) in shuffled.chunks_exact(length).enumerate() {
        let shift = 8 * plane_index as u32;
        for (bits, byte) in bits.iter_mut().zip(plane) {
            *bits |= u32::from(*byte) << shift;
        }
    }
    bits.into_iter().map(f32::from_bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(row: &[f32]) -> Vec<u32> {
        row.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn every_bit_pattern_survives() {
        let mut row: Vec<f32> = (0..5_000_u32).map(|index| f32::from_bits(index.wrapping_mul(0x9e37_79b9))).collect();
        row.extend([f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::INFINITY, f32::NEG_INFINITY, -0.0]);
        for row in [&row[..], &row[..1], &[]] {
            let Ok(LogitsPayload::Full { length, bytes }) = encode_full(row) else { panic!("{row:?}") };
            assert_eq!(bits(&decode_full(length, &bytes).unwrap()), bits(row));
        }
    }

    #[test]
    fn a_payload_of_another_length_is_refused() {
        let Ok(LogitsPayload::Full { length, bytes }) = encode_full(&[1.0, 2.0, 3.0]) else { panic!() };
        assert!(decode_full(length + 1, &bytes).is_err());
        assert!(decode_full(length - 1, &bytes).is_err());
        assert!(decode_full(u32::MAX, &bytes).is_err());
        assert!(decode_full(length, &bytes[..bytes.len() - 1]).is_err());
    }
}
