//! The invariants of ARCHITECTURE.md that can be read off the source.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file under `src/`, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a source folder can be listed") {
            let path = entry.expect("a folder entry can be read").path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file is UTF-8");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 20, "the source tree was not found");
    found
}

/// The code of a line, without its comment. Good enough for these checks: no string here holds `//`.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// `path:line` of every line of code in `folder` (or outside of `folders`) that `matches`.
fn lines(matches: impl Fn(&str) -> bool, selects: impl Fn(&str) -> bool) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for (path, text) in sources() {
        let relative = path.strip_prefix(&root).expect("sources lie under src").to_string_lossy().replace('\\', "/");
        if !selects(&relative) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if matches(code(line)) {
                found.push(format!("src/{relative}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

fn mentions_engine(line: &str) -> bool {
    ["crate::engine", "crate::backend", "super::engine", "super::backend"].iter().any(|path| line.contains(path))
}

#[test]
fn replay_uses_nothing_of_the_engine() {
    let found = lines(mentions_engine, |path| path.starts_with("replay/"));
    assert!(found.is_empty(), "replay must be independent of the engine:\n{}", found.join("\n"));
}

/// What replay may name of the code that makes, asks for and reads tool calls: the types.
fn runs_the_engines_tools(line: &str) -> bool {
    let types = ["Tool", "ToolChoice", "ToolUse"];
    let names = line.split("crate::tools").skip(1).flat_map(|path| {
        let path = path.strip_prefix("::").unwrap_or("*");
        path.split(|character: char| !(character.is_alphanumeric() || "_*".contains(character)))
            .filter(|name| !name.is_empty())
    });
    names.into_iter().any(|name| !types.contains(&name)) || line.contains(".callable(")
}

#[test]
fn replay_reads_and_tells_tools_by_itself() {
    // One file compares a grammar's source with the code that writes it, and says so; tests compare the two sides.
    let other =
        |path: &str| path.starts_with("replay/") && path != "replay/tools/shared.rs" && !path.ends_with("tests.rs");
    let found = lines(runs_the_engines_tools, other);
    assert!(found.is_empty(), "replay must not run the engine's code for tools:\n{}", found.join("\n"));
    let users = lines(|line| line.contains("shared::"), |path| path.starts_with("replay/"));
    assert_eq!(users.len(), 1, "what is shared has one way in:\n{}", users.join("\n"));
}

#[test]
fn the_engine_uses_nothing_of_replay() {
    let found = lines(
        |line| line.contains("crate::replay"),
        |path| ["engine/", "backend/", "arith/", "model/", "params/"].iter().any(|folder| path.starts_with(folder)),
    );
    assert!(found.is_empty(), "the checked must not depend on the checker:\n{}", found.join("\n"));
}

fn has_unsafe(line: &str) -> bool {
    line.split(|character: char| !character.is_alphanumeric() && character != '_').any(|word| word == "unsafe")
}

#[test]
fn unsafe_lives_in_arith_and_backend_only() {
    let found = lines(has_unsafe, |path| !path.starts_with("arith/") && !path.starts_with("backend/"));
    assert!(found.is_empty(), "unsafe outside arith and backend:\n{}", found.join("\n"));
}

/// Fields whose serde default could pass for a value: neither an `Option` nor a list.
fn bare_defaults(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(code).collect();
    let has_default = |line: &&str| line.contains("serde(") && line.contains("default");
    let fields = lines.iter().enumerate().filter(|(_, line)| has_default(line));
    fields
        .filter_map(|(index, _)| lines[index..].iter().find(|line| !line.trim().is_empty() && !line.contains("#[")))
        .filter(|field| ![": Option<", ": Vec<"].iter().any(|kind| field.contains(kind)))
        .map(|field| field.trim().to_owned())
        .collect()
}

#[test]
fn no_field_has_a_bare_serde_default() {
    // A switch of the command line that is absent is off.
    let sources = sources().into_iter().filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "cli"));
    let found: Vec<String> = sources.flat_map(|(_, text)| bare_defaults(&text)).collect();
    assert!(found.is_empty(), "an omitted field is an Option, not a default:\n{}", found.join("\n"));
}

#[test]
fn these_checks_can_fail() {
    assert!(mentions_engine("use crate::engine::Engine;"));
    assert!(!runs_the_engines_tools("use crate::tools::{Tool, ToolChoice, ToolUse};"));
    for line in
        ["use crate::tools::{self, ToolUse};", "crate::tools::parse(text)", "use crate::tools;", "tools.callable()"]
    {
        assert!(runs_the_engines_tools(line), "{line}");
    }
    assert_eq!(bare_defaults("#[serde(with = \"wire\", default)]\npub seed: u64,"), ["pub seed: u64,"]);
    assert_eq!(bare_defaults("#[serde(default)]\n/// Doc.\npub seed: Option<u64>,"), Vec::<String>::new());
    assert!(has_unsafe("    let value = unsafe { *pointer };"));
    assert!(!has_unsafe("    let unsafe_count = 1;"));
    assert_eq!(code("let a = 1; // unsafe"), "let a = 1; ");
}
