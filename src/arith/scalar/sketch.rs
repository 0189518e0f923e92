//! The sketch of a vector: its magnitude and a few fixed random projections.

use super::super::Sketch;
use super::{canonical, philox, sum_by_halves, vectorized};

/// Purpose of the random bits that give elements their signs.
pub const PURPOSE_SKETCH: u32 = 4;
/// Lanes of each sum, and elements that one draw of random words gives signs to.
const LANES: usize = 32;

vectorized! {
    /// The sketch of `x`.
    pub fn sketch(x: &[f32]) -> Sketch {
        let mut lanes = [[0.0; LANES]; Sketch::PROJECTIONS];
        for (block, x) in x.chunks(LANES).enumerate() {
            let words = philox(0, [block as u32, 0, 0, PURPOSE_SKETCH]);
            for (lanes, word) in lanes.iter_mut().zip(words) {
                for (index, (lane, x)) in lanes.iter_mut().zip(x).enumerate() {
                    *lane += if word >> index & 1 == 1 { -x } else { *x };
                }
            }
        }
        Sketch {
            magnitude: x.iter().fold(0.0, |most, x| if x.abs() > most { x.abs() } else { most }),
            projections: lanes.map(|lanes| canonical(sum_by_halves(lanes))),
        }
    }
}
