//! The step loop and its state: scheduler, sampler, prefix cache.

pub mod logprobs;
pub mod sampler;
pub mod stop;
pub mod validity;
