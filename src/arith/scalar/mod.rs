//! The contract in code: the definition of every operation, one row at a time, straight from `docs/arithmetic.md`.
//!
//! It is plain, not slow: each operation is compiled a second time with AVX2 and FMA allowed, and that copy runs where
//! the processor has both (see the macro `vectorized`). The results are the same, because every `fma` is an explicit
//! [`f32::mul_add`], which is exact in software too, and Rust never contracts or reorders floating point by itself.

mod attention;
mod convolution;
mod dequantize;
mod dot;
mod elementwise;
mod exp;
mod float;
mod layouts;
mod log;
mod norm;
mod quantize;
mod random;
mod rope;
mod sketch;
mod statistics;
#[cfg(test)]
mod tests;
mod trigonometry;

pub use attention::attention;
pub use convolution::short_convolution;
pub use dequantize::dequantize_row;
pub use dot::{dot, matvec};
pub use elementwise::{add, product, silu_product};
pub use exp::{exp, exp_f64};
pub use float::{CANONICAL_NAN, canonical, f16_to_f32, f32_to_f16};
pub use log::{log, pow};
pub use norm::rms_norm;
pub use quantize::{activation, quantize};
pub use random::{
    PURPOSE_ACCEPT, PURPOSE_DRAFT, PURPOSE_RESIDUAL, PURPOSE_TOKEN, gumbel, gumbel_for, gumbel_row, philox, uniform,
};
pub use rope::{RopeTable, Rotation};
pub use sketch::{PURPOSE_SKETCH, sketch};
pub(crate) use statistics::mix;
pub use statistics::{checksum, row_statistics};
pub use trigonometry::{cos, sin};

/// Defines a function twice from one body: for any processor, and for x86-64 with AVX2 and FMA, chosen at run time.
///
/// The body is the definition; the second copy only lets the compiler use wider registers and the fma instruction.
macro_rules! vectorized {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $type),*) $(-> $output)? {
            #[inline(always)]
            fn definition($($argument: $type),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn with_avx2_and_fma($($argument: $type),*) $(-> $output)? {
                    definition($($argument),*)
                }
                if crate::arith::scalar::has_avx2_and_fma() {
                    // SAFETY: the processor has the features that the function is compiled for.
                    return unsafe { with_avx2_and_fma($($argument),*) };
                }
            }
            definition($($argument),*)
        }
    };
}
use vectorized;

/// Whether the copies that `vectorized` makes can run here.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2_and_fma() -> bool {
    #[cfg(test)]
    if tests::PORTABLE.get() {
        return false;
    }
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

/// Combines lanes by a tree of halves: lane j takes lane j + 16, then + 8, + 4, + 2, + 1.
#[inline(always)]
fn sum_by_halves<const LANES: usize>(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        let (low, high) = lanes.split_at_mut(width);
        for (low, high) in low.iter_mut().zip(&high[..width]) {
            *low += *high;
        }
        width /= 2;
    }
    lanes[0]
}
