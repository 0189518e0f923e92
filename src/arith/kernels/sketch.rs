//! Sketches of vectors, with the signs of their projections at hand.

use super::super::Sketch;
use super::{Kernels, compiled_for, scalar, sum_by_halves};

/// The contract's lanes of a sketch's sums.
const LANES: usize = 32;

/// The sign bits of every projection, for vectors up to some length.
#[derive(Clone, Debug)]
pub struct SketchSigns {
    /// `[block][projection][lane]`, each 0 or the sign bit of an f32.
    blocks: Vec<[[u32; LANES]; Sketch::PROJECTIONS]>,
}

impl SketchSigns {
    /// The signs for vectors of at most `length` elements.
    pub fn new(length: usize) -> Self {
        let block = |block: usize| {
            let words = scalar::philox(0, [block as u32, 0, 0, scalar::PURPOSE_SKETCH]);
            words.map(|word| std::array::from_fn(|lane| (word >> lane & 1) << 31))
        };
        Self { blocks: (0..length.div_ceil(LANES)).map(block).collect() }
    }
}

impl Kernels {
    /// The sketch of a vector that is not longer than the signs are for: [`scalar::sketch`].
    pub fn sketch(&self, signs: &SketchSigns, x: &[f32]) -> Sketch {
        compiled_for!(self.isa, fn(signs: &SketchSigns = signs, x: &[f32] = x) -> Sketch {
            let mut lanes = [[0.0_f32; LANES]; Sketch::PROJECTIONS];
            let mut magnitudes = [0.0_f32; LANES];
            let (whole, rest) = x.as_chunks::<LANES>();
            let mut tail = [0.0; LANES];
            tail[..rest.len()].copy_from_slice(rest);
            // A zero past the end changes no sum: one that begins with +0 is never -0.
            for (x, signs) in whole.iter().chain((!rest.is_empty()).then_some(&tail)).zip(&signs.blocks) {
                for (lanes, signs) in lanes.iter_mut().zip(signs) {
                    for ((lane, x), sign) in lanes.iter_mut().zip(x).zip(signs) {
                        *lane += f32::from_bits(x.to_bits() ^ sign);
                    }
                }
                for (most, x) in magnitudes.iter_mut().zip(x) {
                    *most = if x.abs() > *most { x.abs() } else { *most };
                }
            }
            Sketch {
                magnitude: magnitudes.into_iter().fold(0.0, |most, x| if x > most { x } else { most }),
                projections: lanes.map(|lanes| scalar::canonical(sum_by_halves(lanes))),
            }
        })
    }
}
