//! What identifies a model.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::backend::mapped_file::MappedFile;
use crate::hash::{Hash, SHA256_LIST, git_blob_sha1, sha256};
use crate::model::{Architecture, ChatTemplate, Tokenizer};

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

fn sha256_list(files: &[Arc<MappedFile>]) -> Hash {
    let lines = files.iter().map(|file| {
        let name = file.path().file_name().unwrap_or_default().to_string_lossy();
        format!("{}  {name}\n", sha256(&[file.bytes()]).hex)
    });
    Hash { algorithm: SHA256_LIST, hex: sha256(&[lines.collect::<String>().as_bytes()]).hex }
}

#[cfg(test)]
mod tests {
    use super::*;

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
