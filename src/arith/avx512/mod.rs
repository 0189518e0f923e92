//! Kernels for AVX-512 F, BW, DQ, VL and VNNI.

mod attention;
mod float;
mod quantized;

pub(in crate::arith) use attention::{scores, weigh};
pub(in crate::arith) use float::multiply_rows;
pub(in crate::arith) use quantized::multiply_tile;
