//! What computes, for capture headers.

use crate::arith::{self, Isa};
use crate::backend::DeviceDescription;

/// Describes the processor and the kernels of `isa`.
pub(super) fn describe(isa: Isa, threads: usize) -> DeviceDescription {
    DeviceDescription {
        backend: "cpu",
        name: processor_name(),
        isa: Some(isa),
        threads,
        arithmetic_version: arith::VERSION,
        kernels: Vec::new(),
    }
}

/// The processor's name, where the system tells it.
fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()))
}
