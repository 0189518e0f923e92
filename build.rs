//! Writes down what the program is built from, for captures to say: the sources of what computes, and git's revision.
//!
//! Outside of a git repository, or without git, the revision is unknown and the build goes on.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Folders with the code that computes logits rows.
const COMPUTING: [&str; 3] = ["kernels", "src/arith", "src/backend"];
/// What the program depends on, as git is asked whether it was changed.
const BUILT: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", "build.rs", "captures/incident", "kernels", "src", "rust-toolchain.toml"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("built_from.rs");
    for part in BUILT.iter().filter(|part| root.join(part).exists()) {
        println!("cargo:rerun-if-changed={part}");
    }
    let mut files = Vec::new();
    for folder in COMPUTING.iter().map(|folder| root.join(folder)).filter(|folder| folder.is_dir()) {
        collect(&folder, &mut files)?;
    }
    let mut text = format!("pub(super) const REVISION: Option<(&str, bool)> = {:?};\n", revision(&root));
    text.push_str("pub(super) const SOURCES: &[(&str, &[u8])] = &[\n");
    let name = |file: &PathBuf| file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
    files.sort_by_key(name);
    for file in &files {
        let name = name(file);
        let _ = writeln!(text, "    ({name:?}, include_bytes!({:?})),", file.display().to_string());
    }
    text.push_str("];\n");
    // The same text again would have everything compiled again.
    if fs::read_to_string(&out).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(out, text)
}

/// Every source under `folder` that is no test.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_test = stem == "tests" || stem.ends_with("_tests");
        if is_test {
            continue;
        }
        let is_source = path
            .extension()
            .is_some_and(|extension| ["rs", "cu", "cuh", "h", "cpp"].iter().any(|known| extension == *known));
        if path.is_dir() {
            collect(&path, files)?;
        } else if is_source {
            files.push(path);
        }
    }
    Ok(())
}

/// The commit that is checked out, and whether what is built was changed since.
fn revision(root: &Path) -> Option<(String, bool)> {
    // A copy without a history of its own may lie in somebody else's repository.
    git(root, &["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let commit = git(root, &["rev-parse", "--verify", "HEAD"])?;
    let mut watched = vec!["HEAD".to_owned(), "packed-refs".to_owned()];
    watched.extend(git(root, &["symbolic-ref", "--quiet", "HEAD"]));
    for name in watched {
        let path = git(root, &["rev-parse", "--git-path", &name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(BUILT);
    let is_changed = !git(root, &status)?.is_empty();
    Some((commit, is_changed))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
