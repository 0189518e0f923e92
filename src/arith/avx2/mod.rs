//! Kernels for AVX2, FMA and F16C.

mod attention;
mod float;
mod quantized;

pub(in crate::arith) use attention::{scores, weigh};
pub(in crate::arith) use float::multiply_rows;
pub(in crate::arith) use quantized::multiply_tile;
