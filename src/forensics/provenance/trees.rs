//! A capture's parts against a tree of files.

use super::tree::{Tree, TreeFile};
use super::{Compared, Part, PartKind, TreeError, Verdict};
use crate::hash::{Hash, Labelled, SHA256, SHA256_LIST, compare, sha256};

/// Extensions of files with weights.
const WEIGHTS: [&str; 2] = [".gguf", ".safetensors"];

/// Compares every part that is a file: a kernel with the file of its path, and a model with the files that could be it, whatever
/// they are called.
///
/// # Errors
/// If a file cannot be read.
pub fn against(parts: &[Part], tree: &Tree) -> Result<Vec<Compared>, TreeError> {
    let files = parts.iter().filter(|part| part.is_file());
    files
        .map(|part| {
            let (with, verdict) = match part.kind {
                PartKind::Model => model(part, tree)?,
                _ => kernel(part, tree)?,
            };
            Ok(Compared { kind: part.kind, name: part.name.clone(), with, verdict })
        })
        .collect()
}

type Found = (Option<String>, Verdict);

fn kernel(part: &Part, tree: &Tree) -> Result<Found, TreeError> {
    let exact = tree.files.iter().find(|file| file.path == part.name);
    let below = format!("/{}", part.name);
    let candidates: Vec<&TreeFile> = match exact {
        Some(file) => vec![file],
        None => tree.files.iter().filter(|file| file.path.ends_with(&below)).collect(),
    };
    match candidates.as_slice() {
        [] => Ok((None, Verdict::NotComparable("there is no file of that name".to_owned()))),
        [file] => Ok((Some(file.path.clone()), compare(&part.hashes, &hashes(part, tree, file)?).into())),
        several => {
            for file in several {
                let verdict = Verdict::from(compare(&part.hashes, &hashes(part, tree, file)?));
                if matches!(verdict, Verdict::Equal { .. }) {
                    return Ok((Some(file.path.clone()), verdict));
                }
            }
            let (count, first) = (several.len(), several.first().map_or("", |file| &file.path));
            let why = format!(
                "{count} files have that name, none of them with its hash, and which is meant cannot be told: {first}, ..."
            );
            Ok((None, Verdict::NotComparable(why)))
        }
    }
}

fn model(part: &Part, tree: &Tree) -> Result<Found, TreeError> {
    if part.hashes.iter().any(|hash| hash.algorithm == SHA256_LIST) {
        return model_folder(part, tree);
    }
    let is_weights = |file: &&TreeFile| WEIGHTS.iter().any(|extension| file.path.ends_with(extension));
    let files: Vec<&TreeFile> = tree.files.iter().filter(is_weights).collect();
    if files.is_empty() {
        return Ok((None, Verdict::NotComparable("there is no file of weights".to_owned())));
    }
    let mut last = None;
    for file in files.iter().filter(|file| part.bytes.is_none_or(|bytes| bytes == file.bytes)) {
        let verdict = Verdict::from(compare(&part.hashes, &hashes(part, tree, file)?));
        if matches!(verdict, Verdict::Equal { .. }) {
            return Ok((Some(file.path.clone()), verdict));
        }
        last = Some((Some(file.path.clone()), verdict));
    }
    let of_other_length = || {
        let recorded = part.bytes.map_or("?".to_owned(), |bytes| format!("{bytes} bytes"));
        let found = format!("{} files of weights, all of other lengths", files.len());
        (None, Verdict::Differs { algorithm: "length".to_owned(), recorded, found })
    };
    Ok(last.unwrap_or_else(of_other_length))
}

/// A model in several files is identified by the list of their hashes.
fn model_folder(part: &Part, tree: &Tree) -> Result<Found, TreeError> {
    let configurations = tree.files.iter().filter(|file| name_of(&file.path) == "config.json");
    let mut last = None;
    for configuration in configurations {
        let folder = configuration.path.strip_suffix("config.json").unwrap_or_default();
        let beside = |file: &&TreeFile| {
            file.path
                .strip_prefix(folder)
                .is_some_and(|name| !name.contains('/') && (name == "config.json" || name.ends_with(".safetensors")))
        };
        // A tree is in order of its paths, and these share all but their names.
        let files: Vec<&TreeFile> = tree.files.iter().filter(beside).collect();
        if files.len() < 2 {
            continue;
        }
        let mut lines = String::new();
        for file in files {
            let hashes = tree.hashes(file, &[SHA256])?;
            let hex = hashes.iter().find(|hash| hash.algorithm == SHA256).map_or("", |hash| &hash.hex);
            lines.push_str(&format!("{hex}  {}\n", name_of(&file.path)));
        }
        let here = [Hash { algorithm: SHA256_LIST, hex: sha256(&[lines.as_bytes()]).hex }];
        let verdict = Verdict::from(compare(&part.hashes, &here));
        let with = Some(format!("{folder}config.json and the safetensors files beside it"));
        if matches!(verdict, Verdict::Equal { .. }) {
            return Ok((with, verdict));
        }
        last = Some((with, verdict));
    }
    let none = "there is no folder with config.json and safetensors files";
    Ok(last.unwrap_or_else(|| (None, Verdict::NotComparable(none.to_owned()))))
}

fn hashes(part: &Part, tree: &Tree, file: &TreeFile) -> Result<Vec<Hash>, TreeError> {
    let wanted: Vec<&str> = part.hashes.iter().map(Labelled::algorithm).collect();
    tree.hashes(file, &wanted)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
