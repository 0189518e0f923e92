//! Hashes that say how they were computed: unlike algorithms are never compared.

use std::io::{self, Read};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A hash with how it was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    /// `sha256`; `git-blob-sha1`, which git gives the file; `sha256-list`, which `sha256sum FILES | sha256sum` prints; `blake3`.
    pub algorithm: &'static str,
    /// Lower-case hexadecimal digits.
    pub hex: String,
}

/// The name of SHA-256.
pub const SHA256: &str = "sha256";
/// The name of the hash that git gives a file's content: SHA-1 of `blob`, its length and its bytes.
pub const GIT_BLOB_SHA1: &str = "git-blob-sha1";
/// The name of BLAKE3.
pub const BLAKE3: &str = "blake3";
/// The name of SHA-256 of the lines that `sha256sum` prints of files, in order of their names.
pub const SHA256_LIST: &str = "sha256-list";

/// A hash with its label, of whatever type.
pub trait Labelled {
    /// How it was computed.
    fn algorithm(&self) -> &str;
    /// Hexadecimal digits.
    fn hex(&self) -> &str;
}

impl Labelled for Hash {
    fn algorithm(&self) -> &str {
        self.algorithm
    }

    fn hex(&self) -> &str {
        &self.hex
    }
}

/// What two lists of labelled hashes say of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// All hashes agree that both sides have.
    Same {
        /// How the first of them was computed.
        algorithm: String,
    },
    /// Some hash differs.
    Different {
        /// How both were computed.
        algorithm: String,
        /// The recorded one.
        recorded: String,
        /// The one that it was compared with.
        here: String,
    },
    /// No algorithm is on both sides; says which are.
    Unlike(String),
}

/// Compares hashes of the same algorithm only: every one that both sides have.
pub fn compare<A: Labelled, B: Labelled>(recorded: &[A], here: &[B]) -> Comparison {
    let pairs: Vec<(&A, &B)> = recorded
        .iter()
        .filter_map(|hash| Some((hash, here.iter().find(|other| other.algorithm() == hash.algorithm())?)))
        .collect();
    let differs = pairs.iter().find(|(recorded, here)| !recorded.hex().eq_ignore_ascii_case(here.hex()));
    match (differs, pairs.first()) {
        (Some((recorded, here)), _) => Comparison::Different {
            algorithm: recorded.algorithm().to_owned(),
            recorded: recorded.hex().to_owned(),
            here: here.hex().to_owned(),
        },
        (None, Some((recorded, _))) => Comparison::Same { algorithm: recorded.algorithm().to_owned() },
        (None, None) => {
            let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let recorded = names(recorded.iter().map(A::algorithm).collect());
            let here = names(here.iter().map(B::algorithm).collect());
            Comparison::Unlike(format!("recorded hashes: {recorded}; hashes here: {here}"))
        }
    }
}

/// SHA-256 of all parts, one behind the other.
pub fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    Hash { algorithm: SHA256, hex: hex(&hasher.finalize()) }
}

/// The hash that git gives a file of these bytes.
pub fn git_blob_sha1(bytes: &[u8]) -> Hash {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()).as_bytes());
    hasher.update(bytes);
    Hash { algorithm: GIT_BLOB_SHA1, hex: hex(&hasher.finalize()) }
}

/// The hashes `sha256`, `git-blob-sha1` and `blake3` of a stream of `bytes` bytes, read once.
///
/// # Errors
/// If it cannot be read, or has another length.
pub fn of_stream(mut stream: impl Read, bytes: u64) -> io::Result<[Hash; 3]> {
    let (mut sha256, mut sha1, mut blake3) = (Sha256::new(), Sha1::new(), blake3::Hasher::new());
    sha1.update(format!("blob {bytes}\0").as_bytes());
    let mut buffer = vec![0; 1 << 20];
    let mut left = bytes;
    loop {
        let length = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let part = buffer.get(..length).unwrap_or_default();
        sha256.update(part);
        sha1.update(part);
        blake3.update(part);
        left = left.checked_sub(length as u64).ok_or_else(changed)?;
    }
    if left > 0 {
        return Err(changed());
    }
    Ok([
        Hash { algorithm: SHA256, hex: hex(&sha256.finalize()) },
        Hash { algorithm: GIT_BLOB_SHA1, hex: hex(&sha1.finalize()) },
        Hash { algorithm: BLAKE3, hex: blake3.finalize().to_hex().to_string() },
    ])
}

fn changed() -> io::Error {
    io::Error::other("its length changed while it was read")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_what_the_usual_tools_print() {
        // `printf 'hello\n' | sha256sum` and `git hash-object`.
        assert_eq!(sha256(&[b"hel", b"lo\n"]).hex, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
        assert_eq!(git_blob_sha1(b"hello\n").hex, "ce013625030ba8dba906f756967f9e9ca394464a");
        let streamed = of_stream(&b"hello\n"[..], 6).unwrap();
        assert_eq!(streamed[..2], [sha256(&[b"hello\n"]), git_blob_sha1(b"hello\n")]);
        assert_eq!(streamed[2].hex, blake3::hash(b"hello\n").to_string());
        assert!(of_stream(&b"hello\n"[..], 5).is_err() && of_stream(&b"hello\n"[..], 7).is_err());
    }

    #[test]
    fn unlike_algorithms_are_not_compared() {
        let (sha256, git) = (sha256(&[b"a"]), git_blob_sha1(b"a"));
        let unlike = compare(std::slice::from_ref(&sha256), std::slice::from_ref(&git));
        assert_eq!(unlike, Comparison::Unlike("recorded hashes: sha256; hashes here: git-blob-sha1".to_owned()));
        let both = [sha256.clone(), git_blob_sha1(b"b")];
        assert!(matches!(compare(&both, std::slice::from_ref(&sha256)), Comparison::Same { .. }));
        assert!(matches!(compare(&both, &[git, sha256]), Comparison::Different { .. }), "one that differs is enough");
    }
}
