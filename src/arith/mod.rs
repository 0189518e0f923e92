//! The arithmetic contract ("arith 1"): one result for each operation, on every device.
//!
//! `docs/arithmetic.md` is the normative text. [`scalar`] is its definition in code, straight and slow; [`Kernels`]
//! is the same arithmetic through the instruction set of the machine, bit for bit.

pub mod scalar;

/// Version of the contract; recorded in captures.
pub const VERSION: u32 = 1;
/// Elements of one activation block (and of the plain quantized weight blocks).
pub const BLOCK: usize = 32;
/// Keys per attention chunk, and positions per page of the key-value cache.
pub const ATTENTION_CHUNK: usize = 32;

/// An instruction set that a build can compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The definition.
    Scalar,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
}

/// How a matrix is stored, as in GGUF and safetensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// 32 4-bit values, one f16 scale.
    Q4_0,
    /// 32 4-bit values, f16 scale and minimum.
    Q4_1,
    /// 32 8-bit values, one f16 scale.
    Q8_0,
    /// 256 4-bit values in 8 sub-blocks with 6-bit scales and minima.
    Q4K,
    /// 256 6-bit values in 16 sub-blocks with 8-bit scales.
    Q6K,
}

/// A weight matrix as it stands in its file: `rows` outputs of `columns` inputs, row-major.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a> {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    bytes: &'a [u8],
}

/// An activation row in int8 blocks of [`BLOCK`]: what a quantized matrix reads.
///
/// A block with a non-finite element has scale NaN and values 0, so that the fault reaches every logit.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedRow {
    /// One per element, within -127..=127.
    pub values: Vec<i8>,
    /// One per block.
    pub scales: Vec<f32>,
}

/// What a matrix product reads: quantized for quantized weights, float for float weights.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivationRow {
    /// For [`WeightFormat`]s that are quantized.
    Quantized(QuantizedRow),
    /// For float formats.
    Float(Vec<f32>),
}

/// Statistics of one raw logits row, all defined by the contract.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowStatistics {
    /// Lowest id of the greatest value; `None` if the row has a NaN or no value above -infinity.
    pub argmax: Option<u32>,
    /// Greatest value, NaN left out; -infinity for a row without any.
    pub maximum: f32,
    /// Log of the sum of exponentials; canonical NaN for an invalid row.
    pub log_sum_exp: f32,
    /// NaN values.
    pub nan_count: u32,
    /// Values of +infinity.
    pub positive_infinity_count: u32,
    /// Values of -infinity.
    pub negative_infinity_count: u32,
    /// Order-free checksum.
    pub checksum: u64,
}

/// Which elements of a head form a pair that rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// (2i, 2i+1): llama in GGUF, whose converter permutes the rows of queries and keys.
    Interleaved,
    /// (i, i + head size / 2): Hugging Face, and lfm2 everywhere.
    Halves,
}
