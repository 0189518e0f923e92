//! Rows in the form that matrix products read.

use crate::arith::{ActivationRow, PackedMatrix, QuantizedRow, WeightFormat};

/// Which forms of a row the matrices that read it need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forms {
    pub quantized: bool,
    pub float: bool,
}

impl Forms {
    /// The forms that `matrices` read.
    pub(super) fn of<'a>(matrices: impl IntoIterator<Item = &'a PackedMatrix>) -> Self {
        let mut forms = Self::default();
        for matrix in matrices {
            if matrix.format().is_quantized() { forms.quantized = true } else { forms.float = true }
        }
        forms
    }
}

/// A buffer of activation rows, each in one or both forms.
#[derive(Default)]
pub(super) struct Activations {
    quantized: Vec<ActivationRow>,
    float: Vec<ActivationRow>,
}

impl Activations {
    /// Makes room for `rows` rows in each of `forms`, and none in the others.
    pub(super) fn resize(&mut self, rows: usize, forms: Forms) {
        let empty_quantized = || ActivationRow::Quantized(QuantizedRow::default());
        let empty_float = || ActivationRow::Float(Vec::new());
        self.quantized.resize_with(if forms.quantized { rows } else { 0 }, empty_quantized);
        self.float.resize_with(if forms.float { rows } else { 0 }, empty_float);
    }

    /// The rows in the form that a matrix of `format` reads.
    pub(super) fn for_format(&self, format: WeightFormat) -> &[ActivationRow] {
        if format.is_quantized() { &self.quantized } else { &self.float }
    }

    /// All rows of both forms, to be written.
    pub(super) fn forms_mut(&mut self) -> [&mut [ActivationRow]; 2] {
        [&mut self.quantized, &mut self.float]
    }

    /// The rows in the form that a matrix of `format` reads, to be moved out.
    pub(super) fn for_format_mut(&mut self, format: WeightFormat) -> &mut Vec<ActivationRow> {
        if format.is_quantized() { &mut self.quantized } else { &mut self.float }
    }
}
