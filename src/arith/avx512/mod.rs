//! Kernels for AVX-512 F, BW, DQ, VL and VNNI.

mod quantized;

pub(in crate::arith) use quantized::multiply_tile;
