//! The arithmetic contract ("arith 1"): one result for each operation, on every device.
//!
//! `docs/arithmetic.md` is the normative text. [`scalar`] is its definition in code, straight and plain; [`Kernels`]
//! is the same arithmetic through the instruction set of the machine, bit for bit.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dispatch;
pub mod golden;
mod kernels;
mod matrix;
mod packed;
pub mod scalar;

pub use dispatch::UnsupportedIsa;
pub use kernels::{Kernels, KvPage, KvPageMut, OutputColumns, OutputRows, SketchSigns};
pub use matrix::{MatrixView, WeightFormat};
pub use packed::{PackedMatrix, TILE, WeightMemory};

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

/// How keys and values are kept. It changes results, so it is a parameter of the contract and recorded in captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// As computed.
    F32,
    /// Rounded to binary16 when stored (nearest, ties to even) and widened exactly when read.
    F16,
}

/// Which elements of an attention head form a pair that a rotary embedding turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeLayout {
    /// (2i, 2i + 1): `llama` in GGUF.
    Interleaved,
    /// (i, i + head_size / 2): Hugging Face, and `lfm2` in GGUF.
    Halves,
}

/// An activation row in int8 blocks of [`BLOCK`]: what a quantized matrix reads.
///
/// A block with a non-finite element has scale NaN and values 0, so that the fault reaches every logit.
#[derive(Clone, Debug, Default, PartialEq)]
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

impl ActivationRow {
    /// Elements in the row: the columns of a matrix that can read it.
    pub fn len(&self) -> usize {
        match self {
            Self::Quantized(row) => row.values.len(),
            Self::Float(row) => row.len(),
        }
    }

    /// Whether the row has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Statistics of one raw logits row, all defined by the contract.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowStatistics {
    /// Lowest id of the greatest value; `None` if the row has a NaN or no value above -infinity.
    pub argmax: Option<u32>,
    /// Greatest value, NaN left out and -0 taken as +0; -infinity for a row without any.
    pub maximum: f32,
    /// Log of the sum of exponentials; canonical NaN for a row with a NaN, with +infinity, or with nothing above
    /// -infinity.
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

/// A few numbers that tell vectors apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sketch {
    /// Greatest absolute value, NaN left out; 0 for a vector of zeros alone.
    pub magnitude: f32,
    /// Sums of the elements, each with signs of its own.
    pub projections: [f32; Sketch::PROJECTIONS],
}

impl Sketch {
    /// Projections of a sketch.
    pub const PROJECTIONS: usize = 4;
}

/// Why the contract cannot compute with what it was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArithError {
    /// A quantized row holds whole blocks only.
    #[error(
        "a {format} matrix needs a multiple of {block} columns, found {columns}; the file is damaged or another format"
    )]
    Columns {
        /// The format.
        format: WeightFormat,
        /// Its elements per block.
        block: usize,
        /// What was asked for.
        columns: usize,
    },
    /// The bytes are not the matrix.
    #[error(
        "a {format} matrix of {rows} x {columns} takes {expected} bytes, found {found}; the file is cut or damaged"
    )]
    Bytes {
        /// The format.
        format: WeightFormat,
        /// Outputs.
        rows: usize,
        /// Inputs.
        columns: usize,
        /// Bytes needed; `usize::MAX` when the size overflows.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A rotary embedding that no table can be built for.
    #[error("rotary embedding: expected {expected}, found {found}; correct the model's metadata")]
    Rope {
        /// What is accepted.
        expected: &'static str,
        /// What was given.
        found: String,
    },
}
