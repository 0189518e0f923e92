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

/// Every path from the crate's root that a file names, with its line: the imports, however they are grouped and broken into
/// lines, and the paths in its code. `file` stands under `src/`.
fn paths(file: &str, text: &str) -> Vec<(usize, String)> {
    let mut modules: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    modules.pop_if(|last| ["mod", "lib", "main"].contains(last));
    let mut found = Vec::new();
    let (mut number, mut import) = (0, None::<(usize, String)>);
    for line in text.lines().map(code) {
        number += 1;
        if line.starts_with("mod ") && line.ends_with('{') {
            modules.push("inner");
        } else if line == "}" {
            modules.pop_if(|last| *last == "inner");
        }
        let begins = import.is_none().then(|| begun_import(line)).flatten();
        if begins.is_some() {
            import = Some((number, String::new()));
        }
        let line = begins.unwrap_or(line);
        let Some((begin, item)) = &mut import else {
            let is_name = |character: char| character.is_alphanumeric() || "_:".contains(character);
            let words = line.split(|character| !is_name(character)).map(|word| word.trim_end_matches(':'));
            let words = words.filter(|word| word.contains("::"));
            found.extend(words.filter_map(|word| from_root(&modules, word)).map(|path| (number, path)));
            continue;
        };
        let (item_line, ends) = line.split_once(';').map_or((line, false), |(item, _)| (item, true));
        *item += item_line;
        item.push(' ');
        if ends {
            let names = ungrouped(item);
            found.extend(names.iter().filter_map(|name| from_root(&modules, name)).map(|path| (*begin, path)));
            import = None;
        }
    }
    found
}

/// What stands after the `use` of a line that begins an import, of whatever visibility.
fn begun_import(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    line.trim_start().strip_prefix("use ")
}

/// The paths of an import without its groups: `a::{b, c::{self, d as e}}` are `a::b`, `a::c` and `a::c::d`.
fn ungrouped(import: &str) -> Vec<String> {
    let import = import.trim();
    let Some((head, group)) = import.split_once('{') else {
        let name = import.split(" as ").next().unwrap_or(import).trim();
        return vec![name.strip_suffix("::self").unwrap_or(name).to_owned()];
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let mut depth = 0;
    let is_comma = |character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        depth == 0 && character == ','
    };
    let items = group.split(is_comma).filter(|item| !item.trim().is_empty());
    items.flat_map(|item| ungrouped(&format!("{}{}", head.trim(), item.trim()))).collect()
}

/// A path as one from the crate's root; `None` for one that does not lead there.
fn from_root(modules: &[&str], path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut place = modules.to_vec();
    match parts[0] {
        "crate" => place.clear(),
        "self" => {}
        "super" => {
            while parts.get(1) == Some(&"super") {
                parts.remove(0);
                place.pop();
            }
            place.pop();
        }
        _ => return None,
    }
    Some(place.into_iter().chain(parts.drain(1..)).collect::<Vec<_>>().join("::"))
}

/// `path:line: import` of every import and path that `matches` in the files that `selects` picks.
fn imports(matches: impl Fn(&str) -> bool, selects: impl Fn(&str) -> bool) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for (path, text) in sources() {
        let relative = path.strip_prefix(&root).expect("sources lie under src").to_string_lossy().replace('\\', "/");
        if selects(&relative) {
            let wrong = paths(&relative, &text).into_iter().filter(|(_, path)| matches(path));
            found.extend(wrong.map(|(number, path)| format!("src/{relative}:{number}: {path}")));
        }
    }
    found
}

/// Whether a path from the root is this module or leads into it; the root itself is everything.
fn is_in(path: &str, module: &str) -> bool {
    ["", "*"].contains(&path) || path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_engine(path: &str) -> bool {
    is_in(path, "engine") || is_in(path, "backend")
}

#[test]
fn replay_and_forensics_use_nothing_of_the_engine() {
    let found = imports(is_engine, |path| path.starts_with("replay/") || path.starts_with("forensics/"));
    assert!(found.is_empty(), "replay must be independent of the engine:\n{}", found.join("\n"));
}

/// What replay may name of the code that makes, asks for and reads tool calls: the types.
fn runs_the_engines_tools(path: &str) -> bool {
    is_in(path, "tools") && !["tools::Tool", "tools::ToolChoice", "tools::ToolUse"].contains(&path)
}

#[test]
fn replay_reads_and_tells_tools_by_itself() {
    // One file compares a grammar's source with the code that writes it, and says so; tests compare the two sides.
    let reads = |path: &str| path.starts_with("replay/") || path.starts_with("forensics/");
    let other = |path: &str| reads(path) && path != "replay/tools/shared.rs" && !path.ends_with("tests.rs");
    let found = [imports(runs_the_engines_tools, other), lines(|line| line.contains(".callable("), other)].concat();
    assert!(found.is_empty(), "replay must not run the engine's code for tools:\n{}", found.join("\n"));
    let users = imports(|path| path.starts_with("replay::tools::shared::"), |path| path.starts_with("replay/"));
    assert_eq!(users.len(), 1, "what is shared has one way in:\n{}", users.join("\n"));
}

#[test]
fn the_engine_uses_nothing_of_replay_or_forensics() {
    let found = imports(
        |path| is_in(path, "replay") || is_in(path, "forensics"),
        |path| {
            ["engine/", "backend/", "arith/", "model/", "params/", "tools/"]
                .iter()
                .any(|folder| path.starts_with(folder))
        },
    );
    assert!(found.is_empty(), "the checked must not depend on the checker:\n{}", found.join("\n"));
}

#[test]
fn nothing_but_the_command_line_uses_the_gates() {
    let found = imports(
        |path| path == "gates" || path.starts_with("gates::"),
        |path| !path.starts_with("gates/") && !path.starts_with("cli/"),
    );
    assert!(found.is_empty(), "what is judged must not know its judge:\n{}", found.join("\n"));
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
    let wrong = |matches: fn(&str) -> bool, file: &str, text: &str| {
        let mut numbers: Vec<usize> =
            paths(file, text).iter().filter(|(_, path)| matches(path)).map(|(number, _)| *number).collect();
        numbers.dedup();
        numbers
    };
    for text in [
        "use crate::engine::Engine;",
        "use crate::{engine, model::Model};",
        "pub(super) use crate::{\n    model::Model,\n    backend::{self, Backend},\n};",
        "fn f() { crate::backend::open(1) }",
        "use super::super::engine::Engine;",
        "use crate as everything;",
        "use crate::*;",
    ] {
        assert_eq!(wrong(is_engine, "replay/run.rs", text), [1], "{text}");
    }
    for text in ["use crate::engines::Engine;", "// use crate::engine::Engine;", "use super::engine::Engine;"] {
        assert_eq!(wrong(is_engine, "replay/run.rs", text), [0; 0], "{text}");
    }
    for text in [
        "use crate::tools::{self, ToolUse};",
        "let found = crate::tools::parse(text);",
        "use crate::tools;",
        "use crate::tools::*;",
        "use crate::tools::{\n    Tool,\n    parse,\n};",
        "use crate::{model::Model, tools::parse};",
        "use crate::{\n    model::{Model, Tokenizer}, tools::{Tool, calls_json as calls},\n};",
    ] {
        assert_eq!(wrong(runs_the_engines_tools, "replay/run.rs", text), [1], "{text}");
    }
    for text in ["use crate::tools::{Tool, ToolChoice,\n    ToolUse};", "use super::tools::calls_json;"] {
        assert_eq!(wrong(runs_the_engines_tools, "replay/run.rs", text), [0; 0], "{text}");
    }
    let inner = "mod tests {\n    use super::*;\n}\npub(crate) fn f(&self) {}\nuse super::*;";
    assert_eq!(wrong(is_engine, "replay/mod.rs", inner), [5]);
    assert_eq!(wrong(runs_the_engines_tools, "replay/mod.rs", "\nuse super::tools::calls_json;"), [2]);
    assert_eq!(bare_defaults("#[serde(with = \"wire\", default)]\npub seed: u64,"), ["pub seed: u64,"]);
    assert_eq!(bare_defaults("#[serde(default)]\n/// Doc.\npub seed: Option<u64>,"), Vec::<String>::new());
    assert!(has_unsafe("    let value = unsafe { *pointer };"));
    assert!(!has_unsafe("    let unsafe_count = 1;"));
    assert_eq!(code("let a = 1; // unsafe"), "let a = 1; ");
}
