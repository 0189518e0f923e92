//! The libraries that can do the work.

/// A grammar library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// llguidance, which every build has.
    #[default]
    Llguidance,
    /// XGrammar, which builds with the feature `xgrammar` have.
    Xgrammar,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Llguidance, Self::Xgrammar];

    /// Its name in settings and captures.
    pub fn name(self) -> &'static str {
        self.component().0
    }

    /// Name and version of the library: captures have them, and replay compares them.
    pub fn component(self) -> (&'static str, &'static str) {
        match self {
            Self::Llguidance => ("llguidance", "1.9.1"),
            // That of the C++ in the crate `xgrammar` 0.6.0, which is what vLLM 0.32 has.
            Self::Xgrammar => ("xgrammar", "0.2.8"),
        }
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Llguidance => true,
            Self::Xgrammar => cfg!(feature = "xgrammar"),
        }
    }

    /// Whether it can keep forced texts to the tokenizer's own tokens.
    pub fn has_canonical_tokens(self) -> bool {
        self == Self::Llguidance
    }
}

/// What to do where [`Backend::is_built`] is false.
pub const HOW_TO_BUILD: &str =
    "build it with `make xgrammar`, or with `cargo build --features xgrammar` where cmake and clang++ are installed";
