//! `stepscope provenance`: what made a capture, and is it what lies there?

mod render;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;

use self::render::{Checked, Report};
use super::{Outcome, output};
use crate::capture::CaptureReader;
use crate::forensics::provenance::{
    self, Compared, Manifest, Part, PartKind, Standing, Tree, Verdict, against, between, stand,
};

/// List what made a capture by its hashes, and hold it against files, a repository or another capture
///
/// Every kernel source and model file that the capture names is listed with its hashes, each with how it was computed: sha256, or
/// git-blob-sha1, which `git hash-object` prints and is another number for the same bytes. Only hashes of one algorithm are ever
/// compared; where no algorithm is on both sides, the two cannot be compared, which is not told as a difference.
///
/// A capture of Stepscope's own names the sources that its program was compiled from (src/arith, src/backend), the program as a
/// whole, and the model's file.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
--against takes a folder (its files as they are; a kernel is looked up by its path, a model by its content), REPOSITORY@REVISION (the \
files of that revision, by git's own ids where the capture has git-blob-sha1), a bare repository (at HEAD), or another capture. What is no \
file (the program, the tokenizer as it was used, the chat template) is compared with another capture alone.

--patches takes a TOML file with a table for each carried patch:

  [[patch]]
  name = \"state bound of the convolution\"
  origin = \"https://github.com/owner/project\"  # or the path of a repository, from the manifest's folder
  reference = \"refs/pull/123/head\"             # HEAD if left out
  commit = \"0123...\"                           # where that stood when the patch was copied, and/or:
  file = \"csrc/convolution.cu\"
  git-blob-sha1 = \"4567...\"                    # of that file there (repositories on this machine alone)

A patch whose origin stands elsewhere by now has moved, which counts as a difference.

--json prints one object: capture, recorder, device, parts (each kind, name, bytes, hashes), against (null, or what, compared: each kind, \
name, with, verdict: equal, differs or not_comparable, algorithm, recorded, found, why), and patches (null, or a list: each name, origin, \
reference, file, checked: each of, stated, now, current: true, false or null, why).

Exit status: 0 all that was compared is equal; 1 something differs or moved; 2 could not run; 3 something could not be compared, or an \
origin could not be reached.

Example: stepscope provenance C.mcap --against ~/stepscope@HEAD --only kernel --patches carried.toml")]
pub struct Options {
    /// The capture.
    capture: PathBuf,
    /// What to compare with: a folder, REPOSITORY@REVISION, or another capture.
    #[arg(long, value_name = "WHAT")]
    against: Option<PathBuf>,
    /// Compare these parts alone; may be given several times.
    #[arg(long, value_name = "KIND", requires = "against")]
    only: Vec<Kind>,
    /// A manifest of carried patches, to be checked against their origins.
    #[arg(long, value_name = "MANIFEST")]
    patches: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Kinds of parts that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Kernels.
    Kernel,
    /// The model, its tokenizer and its chat template.
    Model,
}

/// Runs the command.
///
/// # Errors
/// If the capture, the manifest or what it is compared with cannot be read.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    let reader = CaptureReader::open(&options.capture)?;
    let header = reader.header();
    let parts = provenance::parts(header);
    let against = options.against.as_deref().map(|what| compared(what, &parts, &options.only)).transpose()?;
    let patches = options.patches.as_deref().map(checked).transpose()?;
    let report = Report {
        capture: options.capture.display().to_string(),
        header,
        parts: &parts,
        against: against.as_ref(),
        patches: patches.as_deref(),
    };
    output::to_stdout(|out| match options.json {
        true => Ok(writeln!(out, "{:#}", report.json())?),
        false => report.text(out),
    })?;
    Ok(outcome(against.as_ref(), patches.as_deref()))
}

/// What was compared with what.
#[derive(Debug)]
struct Against {
    what: String,
    compared: Vec<Compared>,
}

fn compared(what: &Path, parts: &[Part], only: &[Kind]) -> anyhow::Result<Against> {
    let wanted = |kind: PartKind| {
        only.is_empty()
            || only.iter().any(|only| match only {
                Kind::Kernel => kind == PartKind::Kernel,
                Kind::Model => kind != PartKind::Kernel,
            })
    };
    let select = |parts: &[Part]| parts.iter().filter(|part| wanted(part.kind)).cloned().collect::<Vec<Part>>();
    let parts = select(parts);
    let (what, compared) = if what.is_file() {
        let other = CaptureReader::open(what).with_context(|| format!("--against {}", what.display()))?;
        (what.display().to_string(), between(&parts, &select(&provenance::parts(other.header()))))
    } else {
        let tree = tree(what).with_context(|| format!("--against {}", what.display()))?;
        let compared = against(&parts, &tree).with_context(|| format!("--against {}", what.display()))?;
        (tree.in_words(), compared)
    };
    Ok(Against { what, compared })
}

/// A folder, or a revision of a repository.
fn tree(what: &Path) -> anyhow::Result<Tree> {
    if what.is_dir() {
        let is_bare = what.join("HEAD").is_file() && what.join("objects").is_dir() && what.join("refs").is_dir();
        return Ok(if is_bare { Tree::of_revision(what, "HEAD")? } else { Tree::of_folder(what)? });
    }
    let text = what.to_string_lossy();
    match text.rsplit_once('@') {
        Some((repository, revision)) if Path::new(repository).is_dir() => {
            if revision.is_empty() || revision.starts_with('-') {
                bail!("expected a revision after the @, found {revision:?}");
            }
            Ok(Tree::of_revision(Path::new(repository), revision)?)
        }
        _ => bail!("expected a folder, REPOSITORY@REVISION or a capture, found nothing of that name"),
    }
}

fn checked(manifest: &Path) -> anyhow::Result<Vec<Checked>> {
    let folder = manifest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Manifest { patches } = Manifest::read(manifest)?;
    Ok(patches.into_iter().map(|patch| Checked { standing: stand(&patch, folder), patch }).collect())
}

fn outcome(against: Option<&Against>, patches: Option<&[Checked]>) -> Outcome {
    let verdicts = || against.into_iter().flat_map(|against| &against.compared).map(|compared| &compared.verdict);
    let standing = || patches.into_iter().flatten().flat_map(|checked| &checked.standing).map(Standing::is_current);
    let differs = verdicts().any(|verdict| matches!(verdict, Verdict::Differs { .. }))
        || standing().any(|current| current == Some(false));
    // A comparison of nothing is none.
    let nothing = against.is_some_and(|against| against.compared.is_empty());
    let unknown = nothing
        || verdicts().any(|verdict| matches!(verdict, Verdict::NotComparable(_)))
        || standing().any(|current| current.is_none());
    match (differs, unknown) {
        (true, _) => Outcome::Findings,
        (false, true) => Outcome::Missing,
        (false, false) => Outcome::Clean,
    }
}
