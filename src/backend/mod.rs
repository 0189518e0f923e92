//! Where the model runs: a backend takes a batch of token rows through the model and gives back logits rows.
//!
//! The engine decides (which tokens, which pages, which state), a backend computes and stores. Nothing in here knows
//! about requests, sampling or text, and every backend gives the same bits (docs/arithmetic.md).

mod batch;
pub mod cpu;
pub mod cuda;
mod error;
pub mod mapped_file;
mod options;

pub use batch::{BatchEntry, Operation, OperationSketches, SnapshotId, StateAccess, StepBatch, StepOutput};
pub use error::BackendError;
pub use options::{BackendKind, BackendOptions, open};

use crate::arith::Isa;
use crate::hash::Hash;
use crate::types::{PageId, StateSlot};

/// A device that holds a model's weights and the state of its running sequences.
///
/// **Pages.** A page stores the keys and values of [`crate::arith::ATTENTION_CHUNK`] consecutive positions of one
/// sequence, for all attention layers. The engine hands pages out and takes them back; a page is never cleared. A
/// position is written by the step that computes it and read only by later positions of the same step and by later
/// steps, so what a page held before is never seen, and a rejected draft is undone by writing its position again. A
/// page whose positions are all committed may be read by any number of sequences; a page that a sequence still writes
/// to must be its own ([`Backend::copy_page`]).
///
/// **State.** A state slot stores, for each short convolution of width `w`, a row of `w - 1 + drafts` columns
/// ([`Capacity::drafts`]), each column one convolution input. A step of `q` tokens that is not prefill reads the
/// `w - 1` columns from [`StateAccess::column`] as its history and then writes `[history[1..], x_0 .. x_{q-1}]` from
/// column 0, so that the history after accepting `a` of its tokens begins at column `a - 1`. A prefill chunk reads
/// likewise and leaves its last `w - 1` inputs at column 0. An entry that begins at position 0 reads zeros, whatever
/// the slot held.
pub trait Backend: Send {
    /// What computes.
    fn device(&self) -> DeviceDescription;

    /// How many of each resource there are.
    fn capacity(&self) -> Capacity;

    /// Computes one step. On an error the pages and states that the batch writes hold unspecified values, and
    /// everything else is untouched.
    ///
    /// `output` is overwritten; its buffers are reused. A non-finite value anywhere reaches the logits rows of the
    /// sequence it belongs to, and is not an error.
    fn forward(&mut self, batch: &StepBatch, output: &mut StepOutput) -> Result<(), BackendError>;

    /// Copies all layers of page `from` to page `to`.
    fn copy_page(&mut self, from: PageId, to: PageId) -> Result<(), BackendError>;

    /// Keeps the history that begins at `from.column` as snapshot `to`, replacing what that snapshot held.
    fn save_state(&mut self, from: StateAccess, to: SnapshotId) -> Result<(), BackendError>;

    /// Puts snapshot `from` at column 0 of `to`.
    fn restore_state(&mut self, from: SnapshotId, to: StateSlot) -> Result<(), BackendError>;

    /// Gives a snapshot's memory back. A snapshot that holds nothing is left as it is.
    fn free_snapshot(&mut self, snapshot: SnapshotId) -> Result<(), BackendError>;
}

/// The resources of a backend. Ids of each kind count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Logits in a row.
    pub vocabulary_size: usize,
    /// Pages of the key-value cache.
    pub pages: usize,
    /// State slots; 0 for a model without recurrent layers, whose entries carry no [`StateAccess`].
    pub state_slots: usize,
    /// Snapshots of recurrent state.
    pub snapshots: usize,
    /// Most drafts that a step may verify per sequence (`num_spec`); bounds the tokens of an entry that is not
    /// prefill at `drafts + 1`, and [`StateAccess::column`] at `drafts`.
    pub drafts: usize,
}

/// What computes the rows, for capture headers and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// `cpu` or `cuda`.
    pub backend: &'static str,
    /// The processor as it names itself; `None` if it does not say.
    pub name: Option<String>,
    /// The instruction set in use; `None` where the device is no CPU.
    pub isa: Option<Isa>,
    /// Threads that compute.
    pub threads: usize,
    /// Version of the arithmetic contract.
    pub arithmetic_version: u32,
    /// The kernels that run; empty if they cannot be identified.
    pub kernels: Vec<KernelDescription>,
}

/// A file with code that computes, or a set of kernels, and what identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDescription {
    /// Path of a source from the root of the repository, or the name of a set.
    pub name: String,
    /// Of a source `sha256` and `git-blob-sha1`; of a set `blake3` of the file that holds its code: the program itself where
    /// kernels are compiled into it.
    pub hashes: Vec<Hash>,
}
