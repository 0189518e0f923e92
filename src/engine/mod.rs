//! The step loop and its state: scheduler, sampler, prefix cache.
