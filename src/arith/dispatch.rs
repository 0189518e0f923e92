//! Which instruction sets this machine can compute with.

use std::fmt;

use super::Isa;

/// An [`Isa`] that this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the `{isa}` path needs CPU features that this machine lacks: {missing}; use `{best}`, or `auto` to choose it",
    missing = .missing.join(", "), best = Isa::detect())]
pub struct UnsupportedIsa {
    /// What was asked for.
    pub isa: Isa,
    /// The features it lacks, by the names the CPU vendors use.
    pub missing: Vec<&'static str>,
}

impl Isa {
    /// Every path that this build knows, slowest first.
    pub const ALL: [Isa; 3] = [Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// The fastest path that this machine supports.
    pub fn detect() -> Isa {
        Isa::ALL.into_iter().rev().find(|isa| isa.is_supported()).unwrap_or(Isa::Scalar)
    }

    /// Whether this machine has every feature of the path.
    pub fn is_supported(self) -> bool {
        self.missing_features().is_empty()
    }

    /// The lower-case name, as `--isa` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The features of the path that this machine lacks.
    pub(super) fn missing_features(self) -> Vec<&'static str> {
        let features = match self {
            Isa::Scalar => Vec::new(),
            Isa::Avx2 => avx2_features(),
            Isa::Avx512 => avx512_features(),
        };
        features.into_iter().filter(|(_, present)| !present).map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The names of the features a path enables, each with whether this machine has it.
#[cfg(target_arch = "x86_64")]
macro_rules! detected {
    ($($name:tt),*) => { vec![$(($name, std::arch::is_x86_feature_detected!($name))),*] };
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! detected {
    ($($name:tt),*) => { vec![$(($name, false)),*] };
}

fn avx2_features() -> Vec<(&'static str, bool)> {
    detected!("avx2", "fma", "f16c")
}

fn avx512_features() -> Vec<(&'static str, bool)> {
    detected!("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_is_supported_everywhere_and_detect_is_supported() {
        assert!(Isa::Scalar.is_supported());
        assert!(Isa::detect().is_supported());
    }

    #[test]
    fn the_error_names_what_is_missing_and_what_to_use() {
        let error = UnsupportedIsa { isa: Isa::Avx512, missing: vec!["avx512bw", "avx512vnni"] };
        let text = error.to_string();
        assert!(text.contains("avx512bw, avx512vnni"), "{text}");
        assert!(text.contains(Isa::detect().name()), "{text}");
    }
}
