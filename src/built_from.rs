//! What this program was built from: the sources of what computes, and the revision where git knew one.

use std::sync::OnceLock;

use crate::hash::{Hash, git_blob_sha1, sha256};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/built_from.rs"));
}

/// A source file that is compiled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path from the root of the repository, with `/`.
    pub name: &'static str,
    /// `sha256` and `git-blob-sha1`.
    pub hashes: [Hash; 2],
}

/// The sources, tests left out, that the code which computes rows is compiled from, in order of their names: `src/arith`,
/// `src/backend` and `kernels`.
pub fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    let hashed =
        |&(name, bytes): &(&'static str, &[u8])| Source { name, hashes: [sha256(&[bytes]), git_blob_sha1(bytes)] };
    SOURCES.get_or_init(|| generated::SOURCES.iter().map(hashed).collect())
}

/// Target and revision in words, such as `x86_64-linux, git 0123..., with changes`.
pub fn in_words() -> String {
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    match generated::REVISION {
        Some((commit, false)) => format!("{target}, git {commit}"),
        Some((commit, true)) => format!("{target}, git {commit}, with changes"),
        None => target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_are_those_of_what_computes() {
        let names: Vec<&str> = sources().iter().map(|source| source.name).collect();
        for wanted in ["src/arith/kernels/convolution.rs", "src/backend/cpu/convolution.rs", "src/arith/scalar/dot.rs"]
        {
            assert!(names.contains(&wanted), "{wanted} is not among {names:?}");
        }
        assert!(names.is_sorted() && !names.iter().any(|name| name.contains("tests")), "{names:?}");
    }
}
