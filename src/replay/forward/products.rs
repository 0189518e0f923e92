//! Which code multiplies: the definition, or the same arithmetic through the machine's instruction set.

use std::collections::HashMap;
use std::io;

use crate::arith::{ActivationRow, Isa, Kernels, OutputRows, PackedMatrix, UnsupportedIsa, WeightMemory, scalar};
use crate::model::{OperatorWeights, Tensor, Weights};

/// How matrix products are computed; the results are the same bit for bit.
pub enum Products {
    /// By the definition.
    Scalar,
    /// Through the machine's instruction set, from copies of the matrices.
    Packed {
        /// The instruction set.
        kernels: Kernels,
        /// The matrices, by name.
        matrices: HashMap<String, PackedMatrix>,
    },
}

/// Why products cannot be computed as was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProductsError {
    /// The machine lacks the instruction set.
    #[error(transparent)]
    Isa(#[from] UnsupportedIsa),
    /// The copies of the matrices found no room.
    #[error("no memory for copies of the weights: {0}; --isa scalar needs none")]
    Memory(#[from] io::Error),
}

impl Products {
    /// Products by `isa`. Any but the scalar one copies all matrices.
    ///
    /// # Errors
    /// If the machine lacks the instruction set, or the memory for the copies.
    pub fn new(isa: Isa, weights: &Weights) -> Result<Self, ProductsError> {
        if isa == Isa::Scalar {
            return Ok(Self::Scalar);
        }
        let kernels = Kernels::new(isa)?;
        let mut memory = WeightMemory::default();
        let mut pack = |tensor: &Tensor| Ok((tensor.name().to_owned(), kernels.pack(&tensor.view(), &mut memory)?));
        let matrices = matrices(weights).map(&mut pack).collect::<Result<_, io::Error>>()?;
        Ok(Self::Packed { kernels, matrices })
    }

    /// One output per row of `matrix`.
    pub(super) fn matvec(&self, matrix: &Tensor, activation: &ActivationRow) -> Vec<f32> {
        let mut out = vec![0.0; matrix.rows()];
        match self {
            Self::Packed { kernels, matrices } if matrices.contains_key(matrix.name()) => {
                let mut rows = OutputRows::new(&mut out, matrix.rows());
                kernels.matmul(&matrices[matrix.name()], std::slice::from_ref(activation), rows.all());
            }
            _ => scalar::matvec(&matrix.view(), activation, &mut out),
        }
        out
    }
}

/// Every matrix that is multiplied with.
fn matrices(weights: &Weights) -> impl Iterator<Item = &Tensor> {
    let layers = weights.layers.iter().flat_map(|layer| {
        let operator = match &layer.operator {
            OperatorWeights::Attention(weights) => {
                vec![&weights.query, &weights.key, &weights.value, &weights.output]
            }
            OperatorWeights::ShortConvolution(weights) => vec![&weights.in_projection, &weights.out_projection],
        };
        operator.into_iter().chain([&layer.gate, &layer.up, &layer.down])
    });
    layers.chain([&weights.head])
}
