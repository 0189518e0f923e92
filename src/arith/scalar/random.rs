//! Counter-based randomness: Philox4x32-10, uniforms, Gumbel noise.

use super::{log, vectorized};

/// Purpose of the noise that draws tokens.
pub const PURPOSE_TOKEN: u32 = 0;
/// Purpose of the uniform that a draft is tested with.
pub const PURPOSE_ACCEPT: u32 = 1;
/// Purpose of the noise that draws from the residual of a rejected draft.
pub const PURPOSE_RESIDUAL: u32 = 2;
/// Purpose of the noise that a drafter with probabilities draws its drafts with.
pub const PURPOSE_DRAFT: u32 = 3;

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), key = (low, high) words of `key`.
#[inline(always)]
pub fn philox(key: u64, counter: [u32; 4]) -> [u32; 4] {
    let [mut key_0, mut key_1] = [key as u32, (key >> 32) as u32];
    let mut c = counter;
    for _ in 0..10 {
        let product_0 = u64::from(c[0]) * 0xd251_1f53;
        let product_1 = u64::from(c[2]) * 0xcd9e_8d57;
        c = [
            (product_1 >> 32) as u32 ^ c[1] ^ key_0,
            product_1 as u32,
            (product_0 >> 32) as u32 ^ c[3] ^ key_1,
            product_0 as u32,
        ];
        key_0 = key_0.wrapping_add(0x9e37_79b9);
        key_1 = key_1.wrapping_add(0xbb67_ae85);
    }
    c
}

/// The midpoint of the `bits`-th of 2^32 equal parts of 0..1: never 0, never 1, exact.
#[inline(always)]
pub fn uniform(bits: u32) -> f64 {
    (f64::from(bits) + 0.5) * f64::from_bits(0x3df0_0000_0000_0000)
}

/// The Gumbel noise of candidate `id` for the token at `position` of choice `choice`.
#[inline(always)]
pub fn gumbel(seed: u64, position: u32, choice: u32, id: u32) -> f64 {
    gumbel_for(PURPOSE_TOKEN, seed, position, choice, id)
}

/// [`gumbel`] for another purpose.
#[inline(always)]
pub fn gumbel_for(purpose: u32, seed: u64, position: u32, choice: u32, id: u32) -> f64 {
    let words = philox(seed, [position, id / 4, choice, purpose]);
    gumbel_of_bits(words[(id % 4) as usize])
}

vectorized! {
    /// [`gumbel`] of the ids 0, 1, 2 ... into `out`.
    pub fn gumbel_row(seed: u64, position: u32, choice: u32, out: &mut [f64]) {
        for (group, out) in out.chunks_mut(4).enumerate() {
            let words = token_words(seed, position, choice, group as u32);
            for (out, bits) in out.iter_mut().zip(words) {
                *out = gumbel_of_bits(bits);
            }
        }
    }
}

/// The random words of the ids `4 * group` to `4 * group + 3`.
#[inline(always)]
fn token_words(seed: u64, position: u32, choice: u32, group: u32) -> [u32; 4] {
    philox(seed, [position, group, choice, PURPOSE_TOKEN])
}

#[inline(always)]
fn gumbel_of_bits(bits: u32) -> f64 {
    // 1 - u is exact: u is an odd multiple of 2^-33.
    -log(-log(1.0 - uniform(bits)))
}
