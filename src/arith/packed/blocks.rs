//! The packed block of each quantized format: 32 columns of one tile.

use half::f16;

use super::TILE;
use super::memory::Plain;

/// The scales of one block, for each of the tile's rows.
pub(in crate::arith) enum Scales<'a> {
    /// f16 scale.
    Half(&'a [u16; TILE]),
    /// f16 scale and minimum.
    HalfMinimum(&'a [u16; TILE], &'a [u16; TILE]),
    /// f32 scale and minimum.
    FullMinimum(&'a [f32; TILE], &'a [f32; TILE]),
    /// f16 scale and an integer factor for each half of the 32 columns.
    HalfSubscales(&'a [u16; TILE], &'a [[i8; TILE]; 2]),
}

/// 32 columns of one tile.
///
/// Weights are unsigned here; what a signed format's weights were raised by is [`TileBlock::BIAS`], and the kernels take
/// it off again with the integer sum of the activations, which is exact.
pub(in crate::arith) trait TileBlock {
    /// What was added to each weight to make it unsigned.
    const BIAS: i32;
    /// Whether each half of the 32 columns has an integer factor of its own.
    const HALVES: bool = false;

    /// 4-bit weights are four vectors of nibbles, 8-bit weights eight vectors of bytes. In vector `j`, bytes `4r..4r+4`
    /// belong to row `r`: columns `4j..4j+4` (in the low nibbles, with columns `16+4j..` in the high ones).
    fn weights(&self) -> &[[u8; 4 * TILE]];

    /// The scales of all rows.
    fn scales(&self) -> Scales<'_>;

    /// Puts block `block` of a row, given in its file layout, into row `lane` of the tile.
    fn set_lane(&mut self, lane: usize, row: &[u8], block: usize);
}

/// 16 bytes that hold 32 4-bit weights, spread over the vectors of a tile.
type Nibbles = [[u8; 4 * TILE]; 4];
/// 32 bytes that hold 32 8-bit weights.
type Bytes = [[u8; 4 * TILE]; 8];

macro_rules! block_type {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C, align(32))]
        pub(in crate::arith) struct $name {
            $($field: $type),*
        }

        // SAFETY: all fields are arrays of numbers, without padding between or behind them.
        unsafe impl Plain for $name {}

        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
    };
}

block_type! {
    /// [`super::super::WeightFormat::Q4_0`]: 288 bytes.
    Q4_0 { weights: Nibbles, scales: [u16; TILE] }
}
block_type! {
    /// [`super::super::WeightFormat::Q4_1`]: 320 bytes.
    Q4_1 { weights: Nibbles, scales: [u16; TILE], minima: [u16; TILE] }
}
block_type! {
    /// [`super::super::WeightFormat::Q8_0`]: 544 bytes.
    Q8_0 { weights: Bytes, scales: [u16; TILE] }
}
block_type! {
    /// One sub-block of [`super::super::WeightFormat::Q4K`]: 384 bytes. Its scale, an f16 times a 6-bit integer, needs f32.
    Q4K { weights: Nibbles, scales: [f32; TILE], minima: [f32; TILE] }
}
block_type! {
    /// Two sub-blocks of [`super::super::WeightFormat::Q6K`]: 576 bytes.
    Q6K { weights: Bytes, scales: [u16; TILE], subscales: [[i8; TILE]; 2] }
}

impl TileBlock for Q4_0 {
    const BIAS: i32 = 8;

    #[inline(always)]
    fn weights(&self) -> &[[u8; 4 * TILE]] {
        &self.weights
    }

    #[inline(always)]
    fn scales(&self) -> Scales<'_> {
        Scales::Half(&self.scales)
    }

    fn set_lane(&mut self, lane: usize, row: &[u8], block: usize) {
        let bytes = &row[18 * block..][..18];
        self.scales[lane] = u16_at(bytes, 0);
        spread(&mut self.weights, lane, &bytes[2..]);
    }
}

impl TileBlock for Q4_1 {
    const BIAS: i32 = 0;

    #[inline(always)]
    fn weights(&self) -> &[[u8; 4 * TILE]] {
        &self.weights
    }

    #[inline(always)]
    fn scales(&self) -> Scales<'_> {
        Scales::HalfMinimum(&self.scales, &self.minima)
    }

    fn set_lane(&mut self, lane: usize, row: &[u8], block: usize) {
        let bytes = &row[20 * block..][..20];
        self.scales[lane] = u16_at(bytes, 0);
        self.minima[lane] = u16_at(bytes, 2);
        spread(&mut self.weights, lane, &bytes[4..]);
    }
}

impl TileBlock for Q8_0 {
    const BIAS: i32 = 128;

    #[inline(always)]
    fn weights(&self) -> &[[u8; 4 * TILE]] {
        &self.weights
    }

    #[inline(always)]
    fn scales(&self) -> Scales<'_> {
        Scales::Half(&self.scales)
    }

    fn set_lane(&mut self, lane: usize, row: &[u8], block: usize) {
        let bytes = &row[34 * block..][..34];
        self.scales[lane] = u16_at(bytes, 0);
        let unsigned: [u8; 32] = std::array::from_fn(|column| bytes[2 + column] ^ 0x80);
        spread(&mut self.weights, lane, &unsigned);
    }
}

impl TileBlock for Q4K {
    const BIAS: i32 = 0;

    #[inline(always)]
    fn weights(&self) -> &[[u8; 4 * TILE]] {
        &self.weights
    }

    #[inline(always)]
    fn scales(&self) -> Scales<'_> {
        Scales::FullMinimum(&self.scales, &self.minima)
    }

    fn set_lane(&mut self, lane: usize, row: &[u8], block: usize) {
        let (super_block, sub_block) = (block / 8, block % 8);
        let bytes = &row[144 * super_block..][..144];
        let (scale, minimum) = q4k_scale_and_minimum(&bytes[4..16], sub_block);
        self.scales[lane] = half_at(bytes, 0) * f32::from(scale);
        self.minima[lane] = -(half_at(bytes, 2) * f32::from(minimum));
        // The file pairs sub-blocks 2g and 2g+1 in the nibbles of 32 bytes; a packed block pairs its own halves.
        let pair = &bytes[16 + 32 * (sub_block / 2)..][..32];
        let shift = 4 * (sub_block % 2);
        let nibbles: [u8; 16] =
            std::array::from_fn(|column| (pair[column] >> shift & 15) | (pair[16 + column] >> shift & 15) << 4);
        spread(&mut self.weights, lane, &nibbles);
    }
}

impl TileBlock for Q6K {
    const BIAS: i32 = 32;
    const HALVES: bool = true;

    #[inline(always)]
    fn weights(&self) -> &[[u8; 4 * TILE]] {
        &self.weights
    }

    #[inline(always)]
    fn scales(&self) -> Scales<'_> {
        Scales::HalfSubscales(&self.scales, &self.subscales)
    }

    fn set_lane(&mut self, lane: usize, row: &[u8], block: usize) {
        let (super_block, part) = (block / 8, block % 8);
        let bytes = &row[210 * super_block..][..210];
        // 128 weights share 64 bytes of low nibbles and 32 bytes of high bit pairs.
        let (group, quarter) = (part / 4, part % 4);
        let low = &bytes[64 * group + 32 * (quarter % 2)..][..32];
        let high = &bytes[128 + 32 * group..][..32];
        let weights: [u8; 32] = std::array::from_fn(|column| {
            (low[column] >> (4 * (quarter / 2)) & 15) | (high[column] >> (2 * quarter) & 3) << 4
        });
        spread(&mut self.weights, lane, &weights);
        self.scales[lane] = u16_at(bytes, 208);
        for (half, subscales) in self.subscales.iter_mut().enumerate() {
            subscales[lane] = bytes[192 + 2 * part + half] as i8;
        }
    }
}

/// Writes a row's weights, four bytes to each vector.
fn spread(vectors: &mut [[u8; 4 * TILE]], lane: usize, bytes: &[u8]) {
    for (vector, four) in vectors.iter_mut().zip(bytes.chunks_exact(4)) {
        vector[4 * lane..4 * lane + 4].copy_from_slice(four);
    }
}

/// The 6-bit scale and minimum of one of the eight sub-blocks of a Q4_K block, from its 12 packed bytes.
fn q4k_scale_and_minimum(packed: &[u8], sub_block: usize) -> (u8, u8) {
    match sub_block {
        0..4 => (packed[sub_block] & 63, packed[sub_block + 4] & 63),
        _ => (
            (packed[sub_block + 4] & 15) | (packed[sub_block - 4] >> 6) << 4,
            (packed[sub_block + 4] >> 4) | (packed[sub_block] >> 6) << 4,
        ),
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

fn half_at(bytes: &[u8], offset: usize) -> f32 {
    f16::from_bits(u16_at(bytes, offset)).to_f32()
}
