//! Carried patches: copies of somebody else's change, made at some commit, held against where their origin stands now.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::git::{self, GitError};

/// A manifest of carried patches, as TOML: a table `[[patch]]` for each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The patches.
    #[serde(default, rename = "patch")]
    pub patches: Vec<Patch>,
}

/// A patch, and what it was made against.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Patch {
    /// What people call it.
    pub name: String,
    /// The repository it was taken from: a path, relative ones from the manifest's folder, or a URL.
    pub origin: String,
    /// The branch, pull request or other reference there, if one is named.
    reference: Option<String>,
    /// The file that it changes, by its path in the repository.
    pub file: Option<String>,
    /// The commit that the reference stood at.
    pub commit: Option<String>,
    /// Git's hash of the file at that commit.
    pub git_blob_sha1: Option<String>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is no manifest.
    #[error("{}: {source}", path.display())]
    Syntax {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The manifest.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A patch says too little or something else than it should.
    #[error("{}: patch `{name}`: expected {expected}, found {found}", path.display())]
    Patch {
        /// The manifest.
        path: PathBuf,
        /// The patch.
        name: String,
        /// What it should say.
        expected: &'static str,
        /// What it says.
        found: String,
    },
}

/// How one thing that a patch states stands to its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `commit` or `git-blob-sha1`.
    pub of: StandingOf,
    /// What the patch was made against, in hexadecimal.
    pub stated: String,
    /// What is there now: the same, another one, nothing at all, or why that is not known.
    pub now: Result<Option<String>, String>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingOf {
    /// The commit of the reference.
    Commit,
    /// The content of the file.
    File,
}

impl StandingOf {
    /// As the manifest calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::File => "git-blob-sha1",
        }
    }
}

impl Standing {
    /// Whether the origin stands where it stood; `None` if that is not known.
    pub fn is_current(&self) -> Option<bool> {
        let now = self.now.as_ref().ok()?;
        Some(now.as_ref().is_some_and(|now| now.eq_ignore_ascii_case(&self.stated)))
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// If it cannot be read, or a patch does not say what it was made against.
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        let io = |source| ManifestError::Io { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(io)?;
        let syntax = |source| ManifestError::Syntax { path: path.to_owned(), source: Box::new(source) };
        let manifest: Self = toml::from_str(&text).map_err(syntax)?;
        for patch in &manifest.patches {
            patch.check().map_err(|(expected, found)| ManifestError::Patch {
                path: path.to_owned(),
                name: patch.name.clone(),
                expected,
                found,
            })?;
        }
        Ok(manifest)
    }
}

impl Patch {
    /// The branch, pull request or other reference; `HEAD` if none is named.
    pub fn reference(&self) -> &str {
        self.reference.as_deref().unwrap_or("HEAD")
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        let is_hash =
            |hex: &String| [40, 64].contains(&hex.len()) && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        if let Some(wrong) = [&self.commit, &self.git_blob_sha1].into_iter().flatten().find(|hex| !is_hash(hex)) {
            return Err(("a whole hash of 40 hexadecimal digits", format!("{wrong:?}")));
        }
        // Git would take it for an option.
        if let Some(wrong) =
            [&self.origin, self.reference()].into_iter().find(|text| text.starts_with('-') || text.is_empty())
        {
            return Err(("an origin and a reference that do not begin with `-`", format!("{wrong:?}")));
        }
        match (&self.commit, &self.git_blob_sha1, &self.file) {
            (None, None, _) => Err(("`commit`, or `git-blob-sha1` with `file`", "neither".to_owned())),
            (_, Some(_), None) => Err(("`file`, whose hash `git-blob-sha1` is", "no `file`".to_owned())),
            _ => Ok(()),
        }
    }

    /// Whether the origin is somewhere else than in the file system.
    fn is_remote(&self) -> bool {
        let scheme = self.origin.split_once("://").map(|(scheme, _)| scheme);
        let is_scp_like = || self.origin.split_once(':').is_some_and(|(host, _)| host.len() > 1 && !host.contains('/'));
        scheme.is_some_and(|scheme| scheme != "file") || (scheme.is_none() && is_scp_like())
    }

    fn repository(&self, folder: &Path) -> PathBuf {
        folder.join(self.origin.strip_prefix("file://").unwrap_or(&self.origin))
    }
}

/// Where the origin of `patch` stands, for each thing that the patch states. Relative origins start from `folder`.
pub fn stand(patch: &Patch, folder: &Path) -> Vec<Standing> {
    let commit = patch.commit.iter().map(|stated| (StandingOf::Commit, stated));
    let file = patch.git_blob_sha1.iter().map(|stated| (StandingOf::File, stated));
    commit
        .chain(file)
        .map(|(of, stated)| {
            let now = match (of, patch.is_remote()) {
                (StandingOf::Commit, true) => {
                    git::remote_head(&patch.origin, patch.reference()).map_err(|error| error.to_string())
                }
                (StandingOf::File, true) => Err(
                    "a repository that is not on this machine does not tell the hashes of its files: clone it, or state `commit`"
                        .to_owned(),
                ),
                (StandingOf::Commit, false) => local_commit(patch, folder),
                (StandingOf::File, false) => local_file(patch, folder),
            };
            Standing { of, stated: stated.clone(), now }
        })
        .collect()
}

fn local_commit(patch: &Patch, folder: &Path) -> Result<Option<String>, String> {
    let repository = reached(patch, folder)?;
    let wanted = format!("{}^{{commit}}", patch.reference());
    found(git::ask_line(&repository, &["rev-parse", "--verify", "--quiet", &wanted]))
}

fn local_file(patch: &Patch, folder: &Path) -> Result<Option<String>, String> {
    let repository = reached(patch, folder)?;
    let wanted = format!("{}:{}", patch.reference(), patch.file.as_deref().unwrap_or_default());
    found(git::ask_line(&repository, &["rev-parse", "--verify", "--quiet", &wanted]))
}

/// The repository, once git knows it as one.
fn reached(patch: &Patch, folder: &Path) -> Result<PathBuf, String> {
    let repository = patch.repository(folder);
    git::ask(&repository, &["rev-parse", "--git-dir"]).map_err(|error| error.to_string())?;
    Ok(repository)
}

/// What a quiet `rev-parse` gave: a refusal in a repository that is one means that there is no such thing.
fn found(answer: Result<String, GitError>) -> Result<Option<String>, String> {
    match answer {
        Ok(id) => Ok(Some(id)),
        Err(GitError::Refused { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(origin: &str) -> Patch {
        let name = "a".to_owned();
        Patch { name, origin: origin.to_owned(), reference: None, file: None, commit: None, git_blob_sha1: None }
    }

    #[test]
    fn what_is_on_this_machine_is_told_from_what_is_not() {
        for here in ["/a/b", "../b", "C:\\b", "file:///a/b", "a/b:c"] {
            assert!(!patch(here).is_remote(), "{here}");
        }
        for there in ["https://host/a", "ssh://host/a", "git@host:a/b", "git://host/a"] {
            assert!(patch(there).is_remote(), "{there}");
        }
    }

    #[test]
    fn a_patch_says_what_it_was_made_against() {
        let mut patch = patch("/a");
        assert!(patch.check().is_err());
        patch.commit = Some("12".to_owned());
        assert!(patch.check().is_err(), "a short hash can be another's");
        patch.commit = Some("1".repeat(40));
        assert!(patch.check().is_ok());
        patch.git_blob_sha1 = Some("2".repeat(40));
        assert!(patch.check().is_err(), "of which file?");
        patch.file = Some("a.cu".to_owned());
        assert!(patch.check().is_ok());
        patch.origin = "--upload-pack=x".to_owned();
        assert!(patch.check().is_err());
    }
}
