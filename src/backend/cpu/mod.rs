//! The CPU backend: packed weights, a paged cache, and a pool of threads.

mod activations;
mod attention;
mod buffers;
mod compute;
mod convolution;
mod description;
mod disjoint;
mod forward;
mod kv_cache;
mod plan;
mod pool;
mod sketches;
mod state;
#[cfg(test)]
mod tests;
mod weights;

use std::time::Instant;

use self::buffers::Buffers;
use self::compute::Compute;
use self::forward::Forward;
use self::kv_cache::{KvCache, KvShape};
use self::plan::{Limits, plan};
use self::pool::{RegionPanicked, ThreadPool};
use self::sketches::Sketcher;
use self::state::{ConvolutionState, StateShape};
use self::weights::PackedWeights;
use super::{Backend, BackendError, BackendOptions, Capacity, DeviceDescription};
use super::{SnapshotId, StateAccess, StepBatch, StepOutput};
use crate::arith::Kernels;
use crate::arith::scalar::{RopeTable, Rotation};
use crate::model::{LayerKind, Model, ModelConfig};
use crate::types::{PageId, StateSlot};

/// A model on the processor.
pub struct CpuBackend {
    config: ModelConfig,
    weights: PackedWeights,
    rope: RopeTable,
    compute: Compute,
    cache: KvCache,
    state: ConvolutionState,
    drafts: usize,
    buffers: Buffers,
    /// `None` if steps are not sketched.
    sketcher: Option<Sketcher>,
    /// The message of a panic, after which nothing that a region wrote can be trusted.
    panicked: Option<String>,
}

impl CpuBackend {
    /// Packs the model's weights and makes room for its state.
    ///
    /// # Errors
    /// If an option cannot be met on this machine, or the model's parts do not fit together.
    pub fn new(model: &Model, options: &BackendOptions) -> Result<Self, BackendError> {
        if options.threads == 0 {
            return Err(BackendError::Configuration("0 threads asked for; at least 1 computes".to_owned()));
        }
        let kernels = match options.isa {
            Some(isa) => Kernels::new(isa).map_err(|error| BackendError::Configuration(error.to_string()))?,
            None => Kernels::detect(),
        };
        let pool = ThreadPool::new(options.threads).map_err(|error| {
            BackendError::Configuration(format!("{} threads do not start: {error}", options.threads))
        })?;
        let config = model.config.clone();
        let rope = RopeTable::new(config.rope.theta, config.head_size, config.rope.frequency_factors.as_deref())
            .map_err(|error| BackendError::Model(error.to_string()))?;
        let weights = PackedWeights::new(&kernels, &model.weights)?;
        let cache = KvCache::new(KvShape {
            kv_type: options.kv_type,
            layers: weights.attention_layers(),
            pages: options.pages,
            kv_heads: config.kv_heads,
            head_size: config.head_size,
        })?;
        let width = convolution_width(&config)?;
        let sketcher = options.sketches.then(|| Sketcher::new(&config, width - 1));
        let shape = StateShape {
            layers: weights.convolution_layers(),
            channels: config.hidden_size,
            width,
            drafts: options.drafts,
        };
        let state = ConvolutionState::new(shape, options.state_slots, options.snapshots)?;
        let compute = Compute { kernels, pool };
        let drafts = options.drafts;
        let buffers = Buffers::default();
        Ok(Self { config, weights, rope, compute, cache, state, drafts, buffers, sketcher, panicked: None })
    }

    fn compute_rows(&mut self, batch: &StepBatch, output: &mut StepOutput) -> Result<(), BackendError> {
        let limits = Limits {
            vocabulary_size: self.weights.embedding.rows(),
            pages: self.cache.pages(),
            drafts: self.drafts,
            state: &self.state,
        };
        let plan = plan(batch, &limits)?;
        if plan.rows.is_empty() {
            *output = StepOutput::default();
            return Ok(());
        }
        let positions = plan.rows.iter().map(|row| row.position as u32);
        let rotations: Vec<Rotation> = positions.map(|position| self.rope.rotation(position)).collect();
        self.buffers.resize(&self.config, plan.rows.len(), plan.entries.len());
        let forward = Forward {
            config: &self.config,
            weights: &self.weights,
            embedding: self.weights.embedding.view(),
            rotations: &rotations,
            plan: &plan,
            compute: &mut self.compute,
            cache: &mut self.cache,
            state: &mut self.state,
            buffers: &mut self.buffers,
            sketcher: self.sketcher.as_ref(),
        };
        forward.run(output).map_err(|RegionPanicked(message)| {
            self.panicked = Some(message.clone());
            BackendError::Panicked(message)
        })
    }
}

/// Taps of the short convolutions; 1, looking back at nothing, for a model without any.
fn convolution_width(config: &ModelConfig) -> Result<usize, BackendError> {
    let has_convolutions = config.layers.contains(&LayerKind::ShortConvolution);
    match config.convolution_width {
        Some(width) if width > 0 => Ok(width),
        None if !has_convolutions => Ok(1),
        _ => Err(BackendError::Model("it has short convolutions, but says no width above 0 for them".to_owned())),
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> DeviceDescription {
        description::describe(self.compute.kernels.isa(), self.compute.pool.threads())
    }

    fn capacity(&self) -> Capacity {
        Capacity {
            vocabulary_size: self.weights.head.rows(),
            pages: self.cache.pages(),
            state_slots: self.state.slots(),
            snapshots: self.state.snapshots(),
            drafts: self.drafts,
        }
    }

    fn forward(&mut self, batch: &StepBatch, output: &mut StepOutput) -> Result<(), BackendError> {
        let started = Instant::now();
        if let Some(message) = &self.panicked {
            return Err(BackendError::Panicked(message.clone()));
        }
        self.compute_rows(batch, output)?;
        output.forward_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn copy_page(&mut self, from: PageId, to: PageId) -> Result<(), BackendError> {
        self.cache.copy_page(from, to)
    }

    fn save_state(&mut self, from: StateAccess, to: SnapshotId) -> Result<(), BackendError> {
        self.state.save(from, to)
    }

    fn restore_state(&mut self, from: SnapshotId, to: StateSlot) -> Result<(), BackendError> {
        self.state.restore(from, to)
    }

    fn free_snapshot(&mut self, snapshot: SnapshotId) -> Result<(), BackendError> {
        self.state.free(snapshot)
    }
}
