//! The backend against the plain forward pass, bit for bit: whatever the threads, the kernels, the batch and the chunks.

mod batches;
mod faults;
mod plain;
mod rows;
mod state;
mod support;
