//! Inputs that reach every corner, and the comparison.

use half::f16;

use crate::arith::{BLOCK, Isa, Kernels, WeightFormat, scalar};

/// The vector paths that this machine can run; scalar too, since it has its own layout code.
pub fn paths() -> Vec<Kernels> {
    Isa::ALL.into_iter().filter_map(|isa| Kernels::new(isa).ok()).collect()
}

/// A SplitMix64 sequence: proptest chooses the seed and the shape, this fills in the numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// Within -1..1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Ordinary numbers of many sizes, with a zero, a negative zero or a subnormal now and then.
    pub fn finite(&mut self) -> f32 {
        match self.next() % 2048 {
            0..64 => 0.0,
            64..128 => -0.0,
            128..192 => f32::from_bits((self.next() % 0x0080_0000) as u32),
            192 => self.unit() * 1e10,
            _ => self.unit(),
        }
    }

    pub fn row(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| self.finite()).collect()
    }

    /// The bytes of a matrix row by row: random weights, ordinary scales.
    pub fn matrix(&mut self, format: WeightFormat, rows: usize, columns: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..rows * columns / format.block_elements() {
            let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| self.next() as u8).collect();
            match format {
                WeightFormat::F32 => block.copy_from_slice(&self.finite().to_le_bytes()),
                WeightFormat::F16 => block.copy_from_slice(&f16::from_f32(self.unit()).to_le_bytes()),
                WeightFormat::Bf16 => block.copy_from_slice(&self.finite().to_le_bytes()[2..]),
                WeightFormat::Q4_0 | WeightFormat::Q8_0 => self.scale(&mut block[..2]),
                WeightFormat::Q4_1 | WeightFormat::Q4K => {
                    self.scale(&mut block[..2]);
                    self.scale(&mut block[2..4]);
                }
                WeightFormat::Q6K => self.scale(&mut block[208..]),
            }
            bytes.extend(block);
        }
        bytes
    }

    fn scale(&mut self, bytes: &mut [u8]) {
        let scale =
            if self.one_in(16) { f16::from_bits(self.next() as u16 & 0x83ff) } else { f16::from_f32(self.unit()) };
        bytes.copy_from_slice(&scale.to_le_bytes());
    }

    /// An activation row; one in `n` of its blocks has a NaN or an infinity.
    pub fn activation_row(&mut self, columns: usize, n: u64) -> Vec<f32> {
        let mut row = self.row(columns);
        for block in row.chunks_mut(BLOCK) {
            if n > 0 && self.one_in(n) {
                block[0] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][(self.next() % 3) as usize];
            }
        }
        row
    }
}

/// Bits, with every NaN the same.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| scalar::canonical(*x).to_bits()).collect()
}

/// Bits as they are: where the contract says that a NaN is canonical, it must be.
pub fn exact_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}
