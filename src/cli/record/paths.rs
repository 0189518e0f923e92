//! Names of the files that `record` makes: nothing is overwritten, and no two files get one name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// Refuses names that are taken or equal, before anything is loaded.
///
/// # Errors
/// If there is something at `out`, at `out` with `.partial` (what the capture is called while it grows) or at `outputs`,
/// or `outputs` is one of the others.
pub(in crate::cli) fn check(out: &Path, outputs: Option<&Path>) -> anyhow::Result<()> {
    let mut partial = OsString::from(out);
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    for (flag, path) in [("--out", Some(out)), ("--out", Some(&partial)), ("--outputs", outputs)] {
        // A link that leads nowhere is a taken name, too.
        if let Some(path) = path.filter(|path| path.symlink_metadata().is_ok()) {
            bail!("{flag}: {}", taken(path));
        }
    }
    let same = |outputs: &&Path| [out, &partial].into_iter().any(|path| resolved(path) == resolved(outputs));
    if let Some(outputs) = outputs.filter(same) {
        bail!(
            "--out and --outputs: {} is where the capture goes; give the outputs a name of their own",
            outputs.display()
        );
    }
    Ok(())
}

/// Says that a name is taken.
pub(super) fn taken(path: &Path) -> String {
    format!("{} exists already and is not overwritten; remove it or choose another name", path.display())
}

/// The path without links and dots in its folder, for the file itself is not there yet.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    path.file_name().map_or_else(|| path.to_owned(), |name| folder.join(name))
}
