//! What identifies a model.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::backend::mapped_file::MappedFile;
use crate::model::{Architecture, ChatTemplate, Tokenizer};

/// A hash with how it was computed: unlike algorithms are never compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    /// `sha256`; `git-blob-sha1`, which git gives the file; `sha256-list`, which `sha256sum FILES | sha256sum` prints.
    pub algorithm: &'static str,
    /// Lower-case hexadecimal digits.
    pub hex: String,
}

/// Where a model came from and what identifies it.
#[derive(Debug)]
pub struct ModelIdentity {
    /// A name for people: from the metadata, or else the name of the file or folder.
    pub name: String,
    /// What was loaded.
    pub path: PathBuf,
    /// Which forward pass it has.
    pub architecture: Architecture,
    /// Length in bytes of all weights files.
    pub file_bytes: u64,
    tokenizer_hash: Hash,
    chat_template_hash: Option<Hash>,
    files: WeightsFiles,
    file_hashes: OnceLock<Vec<Hash>>,
}

/// The files that say what the model computes.
#[derive(Debug)]
pub(crate) enum WeightsFiles {
    /// One file with everything.
    Single(Arc<MappedFile>),
    /// Weights and their configuration, in order of their names.
    Several(Vec<Arc<MappedFile>>),
}

impl ModelIdentity {
    pub(crate) fn new(
        name: Option<&str>,
        path: &Path,
        architecture: Architecture,
        files: WeightsFiles,
        tokenizer: &Tokenizer,
        chat_template: Option<&ChatTemplate>,
    ) -> Self {
        let file_name = || path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let file_bytes = match &files {
            WeightsFiles::Single(file) => file.bytes().len() as u64,
            WeightsFiles::Several(files) => files.iter().map(|file| file.bytes().len() as u64).sum(),
        };
        Self {
            name: name.map_or_else(file_name, str::to_owned),
            path: path.to_owned(),
            architecture,
            file_bytes,
            tokenizer_hash: tokenizer.hash().clone(),
            chat_template_hash: chat_template.map(|template| sha256(&[template.source().as_bytes()])),
            files,
            file_hashes: OnceLock::new(),
        }
    }

    /// Hashes of what the model computes with: of the one file (`sha256`, `git-blob-sha1`), or of the list of
    /// `config.json` and the safetensors files (`sha256-list`). Reads all of it on the first call.
    pub fn file_hashes(&self) -> &[Hash] {
        self.file_hashes.get_or_init(|| match &self.files {
            WeightsFiles::Single(file) => vec![sha256(&[file.bytes()]), git_blob_sha1(file.bytes())],
            WeightsFiles::Several(files) => vec![sha256_list(files)],
        })
    }

    /// Gives the memory of the mapped files back, for when their contents have been copied; what is read later is read
    /// from the files again.
    pub fn release_pages(&self) {
        match &self.files {
            WeightsFiles::Single(file) => file.release_pages(),
            WeightsFiles::Several(files) => files.iter().for_each(|file| file.release_pages()),
        }
    }

    /// Hashes of the tokenizer as it is used; see [`Tokenizer::hash`].
    pub fn tokenizer_hashes(&self) -> &[Hash] {
        std::slice::from_ref(&self.tokenizer_hash)
    }

    /// Hashes of the chat template's text; none without a template.
    pub fn chat_template_hashes(&self) -> &[Hash] {
        self.chat_template_hash.as_slice()
    }
}

/// SHA-256 of all parts, one behind the other.
pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    Hash { algorithm: "sha256", hex: hex(&hasher.finalize()) }
}

fn git_blob_sha1(bytes: &[u8]) -> Hash {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()).as_bytes());
    hasher.update(bytes);
    Hash { algorithm: "git-blob-sha1", hex: hex(&hasher.finalize()) }
}

fn sha256_list(files: &[Arc<MappedFile>]) -> Hash {
    let lines = files.iter().map(|file| {
        let name = file.path().file_name().unwrap_or_default().to_string_lossy();
        format!("{}  {name}\n", sha256(&[file.bytes()]).hex)
    });
    Hash { algorithm: "sha256-list", hex: sha256(&[lines.collect::<String>().as_bytes()]).hex }
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
    }

    #[test]
    fn the_hash_of_a_list_covers_names_and_contents() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).expect("written");
            Arc::new(MappedFile::open(&path).expect("mapped"))
        };
        // `cd FOLDER && sha256sum a b | sha256sum`.
        let list = sha256_list(&[open("a", "hello\n"), open("b", "x\n")]);
        assert_eq!(list.hex, "97a2aa464f2c4149cacdae02a601bd8a03f2c4af938d94f1966c86eaacdc2231");
        assert_eq!(list.algorithm, "sha256-list");
    }
}
