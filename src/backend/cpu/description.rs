//! What computes, for capture headers.

use std::sync::OnceLock;

use crate::arith::{self, Isa};
use crate::backend::mapped_file::MappedFile;
use crate::backend::{DeviceDescription, KernelDescription};

/// Describes the processor and the kernels of `isa`.
pub(super) fn describe(isa: Isa, threads: usize) -> DeviceDescription {
    DeviceDescription {
        backend: "cpu",
        name: processor_name(),
        isa: Some(isa),
        threads,
        arithmetic_version: arith::VERSION,
        kernels: program_hash()
            .map(|blake3| KernelDescription { name: format!("cpu {isa}"), blake3 })
            .into_iter()
            .collect(),
    }
}

/// The processor's name, where the system tells it.
fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()))
}

/// Hash of the running program, which the kernels are compiled into: the bytes that compute, compiler and flags included.
fn program_hash() -> Option<String> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    let hash = || {
        let program = MappedFile::open(&std::env::current_exe().ok()?).ok()?;
        Some(blake3::hash(program.bytes()).to_hex().to_string())
    };
    HASH.get_or_init(hash).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_are_identified_by_the_program_that_holds_them() {
        let device = describe(Isa::Scalar, 3);
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let [kernels] = &device.kernels[..] else { panic!("{device:?}") };
        assert_eq!(kernels.name, "cpu scalar");
        assert_eq!(kernels.blake3, blake3::hash(&program).to_string());
        assert_eq!((device.threads, device.arithmetic_version), (3, arith::VERSION));
    }
}
