//! What computes, for capture headers.

use std::sync::OnceLock;

use crate::arith::{self, Isa};
use crate::backend::mapped_file::MappedFile;
use crate::backend::{DeviceDescription, KernelDescription};
use crate::built_from;
use crate::hash::{BLAKE3, Hash};

/// Describes the processor and the kernels of `isa`.
pub(super) fn describe(isa: Isa, threads: usize) -> DeviceDescription {
    DeviceDescription {
        backend: "cpu",
        name: processor_name(),
        isa: Some(isa),
        threads,
        arithmetic_version: arith::VERSION,
        kernels: program(isa).into_iter().chain(sources()).collect(),
    }
}

/// The program, by the name of the instruction set.
fn program(isa: Isa) -> Option<KernelDescription> {
    let hex = program_hash()?;
    Some(KernelDescription { name: format!("cpu {isa}"), hashes: vec![Hash { algorithm: BLAKE3, hex }] })
}

/// The sources that the program's kernels are compiled from.
fn sources() -> impl Iterator<Item = KernelDescription> {
    let of_cpu = |name: &str| name.starts_with("src/arith/") || name.starts_with("src/backend/");
    let sources = built_from::sources().iter().filter(move |source| of_cpu(source.name));
    sources.map(|source| KernelDescription { name: source.name.to_owned(), hashes: source.hashes.to_vec() })
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
    use crate::hash;

    #[test]
    fn the_kernels_are_identified_by_the_program_that_holds_them() {
        let device = describe(Isa::Scalar, 3);
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(device.kernels[0].name, "cpu scalar");
        let hex = blake3::hash(&program).to_string();
        assert_eq!(device.kernels[0].hashes, [Hash { algorithm: BLAKE3, hex }]);
        let file = include_bytes!("convolution.rs");
        let source = device.kernels.iter().find(|kernel| kernel.name == "src/backend/cpu/convolution.rs").unwrap();
        assert_eq!(source.hashes, [hash::sha256(&[file]), hash::git_blob_sha1(file)]);
        assert_eq!((device.threads, device.arithmetic_version), (3, arith::VERSION));
    }
}
