//! Request fields and their resolution, with provenance.
//!
//! [`wire`] reads a request as the client sent it, with every field an `Option`; [`resolve`] decides each parameter
//! along client > server override > generation config > protocol default and keeps who decided; the engine and replay
//! take the plain [`SamplingParams`]. [`lines`] reads whole request files, and [`response`] is the way back.

pub mod chain;
mod error;
mod fields;
mod json;
mod known;
mod layers;
pub mod lines;
mod messages;
mod output;
mod read;
pub mod resolve;
pub mod response;
mod sampling;
pub mod seed;
mod streaming;
mod tools;
pub mod wire;

pub use error::{RequestError, RequestFault, Warning};
pub use fields::{RequestFields, SAMPLING_FIELDS};
pub use layers::sampling_recommendation;
pub use lines::{RequestLine, read_lines, read_one};
pub use output::OutputConstraint;
pub use resolve::{Defaults, ParamChain, Resolved, ResolvedParams, Source};
pub use sampling::SamplingParams;
pub use streaming::Streaming;
pub use wire::{Endpoint, Input, Request};

#[cfg(test)]
mod tests;
