//! A tree of files to compare with: a folder as it is, or a revision of a git repository.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::git::{self, GitError};
use crate::hash::{GIT_BLOB_SHA1, Hash, of_stream};

/// Most files of a tree.
const MOST_FILES: usize = 1 << 20;

/// Why a tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A folder or file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git gave no answer.
    #[error("{}: {source}", repository.display())]
    Git {
        /// The repository.
        repository: PathBuf,
        /// Why.
        source: GitError,
    },
    /// It has more files than are looked at.
    #[error("{} has more than {MOST_FILES} files; give the folder that holds what is to be compared", .0.display())]
    TooMany(PathBuf),
}

/// Files with their lengths, to be hashed on demand.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// The commit, of a tree in git.
    commit: Option<String>,
    pub(super) files: Vec<TreeFile>,
}

/// One file of a tree.
#[derive(Debug)]
pub(super) struct TreeFile {
    /// From the root of the tree, with `/`.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Git's id of its content, in a tree of git.
    blob: Option<String>,
}

impl Tree {
    /// The files under a folder, as they are. Symbolic links are not followed; `.git` is left out.
    ///
    /// # Errors
    /// If a folder cannot be listed, or there are too many files.
    pub fn of_folder(root: &Path) -> Result<Self, TreeError> {
        let mut files = Vec::new();
        let mut folders = vec![(root.to_owned(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let failed = |source| TreeError::Io { path: folder.clone(), source };
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let kind = entry.file_type().map_err(failed)?;
                if kind.is_dir() && name != ".git" {
                    folders.push((entry.path(), format!("{prefix}{name}/")));
                } else if kind.is_file() {
                    let bytes = entry.metadata().map_err(failed)?.len();
                    files.push(TreeFile { path: format!("{prefix}{name}"), bytes, blob: None });
                }
            }
            if files.len() + folders.len() > MOST_FILES {
                return Err(TreeError::TooMany(root.to_owned()));
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root: root.to_owned(), commit: None, files })
    }

    /// The files of a revision of a repository.
    ///
    /// # Errors
    /// If git does not know the repository or the revision.
    pub fn of_revision(repository: &Path, revision: &str) -> Result<Self, TreeError> {
        let failed = |source| TreeError::Git { repository: repository.to_owned(), source };
        let wanted = format!("{revision}^{{commit}}");
        let commit = git::ask_line(repository, &["rev-parse", "--verify", &wanted]).map_err(failed)?;
        let listed = git::ask(repository, &["ls-tree", "-r", "-l", "-z", "--full-tree", &commit]).map_err(failed)?;
        let files = listed.split(|byte| *byte == 0).filter_map(entry).collect();
        Ok(Self { root: repository.to_owned(), commit: Some(commit), files })
    }

    /// What it is, in words.
    pub fn in_words(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} at {commit}", self.root.display()),
            None => self.root.display().to_string(),
        }
    }

    /// The commit, of a tree in git.
    pub fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    /// Hashes of a file: git's own where that suffices for `wanted`, or else of its bytes.
    pub(super) fn hashes(&self, file: &TreeFile, wanted: &[&str]) -> Result<Vec<Hash>, TreeError> {
        let Some(blob) = &file.blob else {
            let path = self.root.join(&file.path);
            let hashed = File::open(&path).and_then(|stream| of_stream(stream, file.bytes));
            return hashed.map(Vec::from).map_err(|source| TreeError::Io { path, source });
        };
        // Repositories of another object format have longer ids, which are no `git-blob-sha1`.
        if blob.len() == 40 && wanted.contains(&GIT_BLOB_SHA1) {
            return Ok(vec![Hash { algorithm: GIT_BLOB_SHA1, hex: blob.clone() }]);
        }
        let content = git::ask(&self.root, &["cat-file", "blob", blob]);
        let content = content.map_err(|source| TreeError::Git { repository: self.root.clone(), source })?;
        of_stream(content.as_slice(), content.len() as u64)
            .map(Vec::from)
            .map_err(|source| TreeError::Io { path: self.root.join(&file.path), source })
    }
}

/// A line of `git ls-tree -r -l`: mode, kind, id, length, and the path after a tab. Links and submodules are left out.
fn entry(line: &[u8]) -> Option<TreeFile> {
    let line = String::from_utf8_lossy(line);
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split_whitespace();
    let (mode, kind, blob, bytes) = (facts.next()?, facts.next()?, facts.next()?, facts.next()?);
    let is_file = kind == "blob" && mode.starts_with("100");
    is_file.then_some(TreeFile { path: path.to_owned(), bytes: bytes.parse().ok()?, blob: Some(blob.to_owned()) })
}
