//! How a weight matrix is stored, and a view of one.

use std::fmt;

use super::{ArithError, BLOCK};

/// Elements of a super-block of the K formats.
const SUPER_BLOCK: usize = 256;

/// How a matrix is stored, as in GGUF and safetensors. Byte layouts stand in `docs/arithmetic.md`, "Weight formats".
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

impl WeightFormat {
    /// Every format.
    pub const ALL: [Self; 8] =
        [Self::F32, Self::F16, Self::Bf16, Self::Q4_0, Self::Q4_1, Self::Q8_0, Self::Q4K, Self::Q6K];

    /// Elements that are stored together; 1 for float formats.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q8_0 => BLOCK,
            Self::Q4K | Self::Q6K => SUPER_BLOCK,
        }
    }

    /// Bytes of what is stored together.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 2 + 2 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q4K => 2 + 2 + 12 + 128,
            Self::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// Bytes of a row; `None` if `columns` is not a whole number of blocks, or the size overflows.
    pub fn row_bytes(self, columns: usize) -> Option<usize> {
        let whole = columns.is_multiple_of(self.block_elements());
        if whole { (columns / self.block_elements()).checked_mul(self.block_bytes()) } else { None }
    }

    /// Whether a product with it reads a quantized activation row.
    pub fn is_quantized(self) -> bool {
        !matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }

    /// The name that GGUF and ggml use.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q6K => "Q6_K",
        }
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A weight matrix as it stands in its file: `rows` outputs of `columns` inputs, row-major.
///
/// Its bytes are known to be whole: nothing that reads them can go out of bounds.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a> {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> MatrixView<'a> {
    /// Takes `bytes` for a matrix.
    ///
    /// # Errors
    /// If `columns` is not a whole number of blocks, or the length of `bytes` is not exactly that of the matrix.
    pub fn new(format: WeightFormat, rows: usize, columns: usize, bytes: &'a [u8]) -> Result<Self, ArithError> {
        let Some(row_bytes) = format.row_bytes(columns) else {
            return Err(ArithError::Columns { format, block: format.block_elements(), columns });
        };
        if row_bytes.checked_mul(rows) != Some(bytes.len()) {
            let expected = row_bytes.saturating_mul(rows);
            return Err(ArithError::Bytes { format, rows, columns, expected, found: bytes.len() });
        }
        Ok(Self { format, rows, columns, row_bytes, bytes })
    }

    /// How it is stored.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of one row.
    ///
    /// # Panics
    /// If `row` is not below [`Self::rows`].
    pub fn row_bytes(&self, row: usize) -> &'a [u8] {
        assert!(row < self.rows, "row {row} of a matrix of {} rows", self.rows);
        &self.bytes[row * self.row_bytes..][..self.row_bytes]
    }
}
