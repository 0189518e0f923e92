//! The place of the CUDA backend: the constructor it will have, and why it fails in this build.

use std::convert::Infallible;

use super::{Backend, BackendError, BackendOptions, Capacity, DeviceDescription};
use super::{SnapshotId, StateAccess, StepBatch, StepOutput};
use crate::model::Model;
use crate::types::{PageId, StateSlot};

/// An NVIDIA GPU. This build has no kernels for it, so there is no value of this type.
#[derive(Debug)]
pub struct CudaBackend(Infallible);

impl CudaBackend {
    /// Loads the model's weights into the GPU.
    ///
    /// # Errors
    /// Always, in this build; the error says what to do instead.
    pub fn new(_model: &Model, _options: &BackendOptions) -> Result<Self, BackendError> {
        let reason = "this build of Stepscope has no CUDA kernels yet; use `--backend cpu` (the rows are the same, bit \
                      for bit, on every backend)";
        Err(BackendError::Unavailable { backend: "cuda", reason: reason.to_owned() })
    }
}

impl Backend for CudaBackend {
    fn device(&self) -> DeviceDescription {
        match self.0 {}
    }

    fn capacity(&self) -> Capacity {
        match self.0 {}
    }

    fn forward(&mut self, _batch: &StepBatch, _output: &mut StepOutput) -> Result<(), BackendError> {
        match self.0 {}
    }

    fn copy_page(&mut self, _from: PageId, _to: PageId) -> Result<(), BackendError> {
        match self.0 {}
    }

    fn save_state(&mut self, _from: StateAccess, _to: SnapshotId) -> Result<(), BackendError> {
        match self.0 {}
    }

    fn restore_state(&mut self, _from: SnapshotId, _to: StateSlot) -> Result<(), BackendError> {
        match self.0 {}
    }

    fn free_snapshot(&mut self, _snapshot: SnapshotId) -> Result<(), BackendError> {
        match self.0 {}
    }
}
