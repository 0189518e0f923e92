//! Kernels for AVX2, FMA and F16C.

mod quantized;

pub(in crate::arith) use quantized::multiply_tile;
