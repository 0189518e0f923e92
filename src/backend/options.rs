//! Choosing and opening a backend.

use super::cpu::CpuBackend;
use super::cuda::CudaBackend;
use super::{Backend, BackendError};
use crate::arith::{Isa, KvType};
use crate::model::Model;

/// Which backend to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// The fastest that this build has on this machine. Until there is a CUDA backend, that is the CPU.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// How large and how fast a backend is to be; none of it changes a result, except the type of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendOptions {
    /// Threads that compute, at least 1.
    pub threads: usize,
    /// Instruction set of the CPU backend; `None` for the best that the machine has.
    pub isa: Option<Isa>,
    /// Type of the key-value cache.
    pub kv_type: KvType,
    /// Pages of the key-value cache, of [`crate::arith::ATTENTION_CHUNK`] positions each.
    pub pages: usize,
    /// State slots: sequences that may run at a time. Ignored for a model without recurrent layers.
    pub state_slots: usize,
    /// Snapshots of recurrent state that may exist at a time. Ignored likewise.
    pub snapshots: usize,
    /// Most drafts that a step may verify per sequence.
    pub drafts: usize,
    /// Whether steps are sketched: [`super::StepOutput::sketches`].
    pub sketches: bool,
}

/// Loads the model's weights into a backend.
///
/// # Errors
/// If the backend is not available here, an option cannot be met, or the model's parts do not fit together.
pub fn open(kind: BackendKind, model: &Model, options: &BackendOptions) -> Result<Box<dyn Backend>, BackendError> {
    match kind {
        BackendKind::Auto | BackendKind::Cpu => Ok(Box::new(CpuBackend::new(model, options)?)),
        BackendKind::Cuda => Ok(Box::new(CudaBackend::new(model, options)?)),
    }
}
