//! JSON Schema, as far as it can be enforced token by token.
//!
//! The library compiles schemas, but leaves out in silence what it does not know, and reads some keywords more loosely
//! than the specification. [`prepare`] goes through every subschema that takes part in validation and refuses, by
//! name and place, what would be left out or loosened; what can be said exactly in other words it rewrites. What is
//! compiled then only ever allows documents that the schema accepts. It may allow fewer: the properties of an object come
//! in the order of the schema, and characters are not written as `\u` escapes.
//!
//! Annotations (`title`, `description`, `default`, `examples`, ...) and unused definitions say nothing about validity, and
//! are let through. So are keywords that begin with `x-`, which the specification reserves for extensions.

mod draft;
mod finite;
mod format;
mod keyword;
mod numbers;
mod pattern;
mod reference;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value as Json, json};

use crate::grammar::{GrammarError, Whitespace};
use draft::Draft;
use keyword::Kind;

/// Subschemas in one schema.
const MAX_SUBSCHEMAS: usize = 10_000;
/// Nesting of one schema document, which the library goes down by recursion.
const MAX_DEPTH: usize = 128;
/// Bytes of one text that has to come as it is: the library goes through all of it at every step.
const MAX_FORCED_BYTES: usize = 8192;
/// The key under which the library takes its own options from a schema.
const LIBRARY_OPTIONS: &str = "x-guidance";

/// The schema as the library is to compile it.
///
/// # Errors
/// If any part of it cannot be enforced.
pub(super) fn prepare(schema: &Json, whitespace: Whitespace) -> Result<Json, GrammarError> {
    let Admitted { schema: mut prepared, .. } = admit(schema)?;
    if let Some(root) = prepared.as_object_mut() {
        // Without `u`, a key has one spelling only, so that a declared property cannot come in disguise.
        let mut options = json!({
            "whitespace_flexible": whitespace == Whitespace::Any,
            "json_allowed_escapes": "nrbtf\\\"",
        });
        if whitespace == Whitespace::Single {
            options["item_separator"] = json!(", ");
            options["key_separator"] = json!(": ");
        }
        root.insert(LIBRARY_OPTIONS.to_owned(), options);
    }
    Ok(prepared)
}

/// A schema that can be enforced.
pub(super) struct Admitted {
    /// In plain words: patterns in the syntax of Rust's `regex` crate, formats as patterns in `allOf`.
    pub(super) schema: Json,
    /// The places of its subschemas that take part in validation, as JSON pointers into what was asked for.
    #[cfg_attr(not(feature = "xgrammar"), allow(dead_code, reason = "llguidance takes the schema as a whole"))]
    pub(super) places: Vec<String>,
}

/// The schema, if every part of it is one that a grammar can enforce.
///
/// # Errors
/// If one is not.
pub(super) fn admit(schema: &Json) -> Result<Admitted, GrammarError> {
    let mut prepared = match schema {
        Json::Bool(true) => json!({}),
        other => other.clone(),
    };
    let draft = Draft::of(&prepared)?;
    let mut walk = Walk {
        root: &prepared,
        draft,
        seen: HashSet::new(),
        visited: Vec::new(),
        waiting: vec![String::new()],
        rewrites: Vec::new(),
    };
    while let Some(place) = walk.waiting.pop() {
        walk.visit(&place)?;
    }
    reference::check(&prepared, draft, &walk.visited)?;
    finite::check(&prepared, &walk.visited)?;
    let Walk { mut rewrites, visited: places, .. } = walk;
    // New keys change the places below them, so they come last, and the deepest first.
    rewrites.sort_by_key(|rewrite| match rewrite.change {
        Change::Keys(_) => (1, Reverse(rewrite.place.len())),
        _ => (0, Reverse(0)),
    });
    for rewrite in rewrites {
        rewrite.apply(&mut prepared)?;
    }
    Ok(Admitted { schema: prepared, places })
}

/// What the library is to see in other words, in one subschema.
struct Rewrite {
    place: String,
    change: Change,
}

enum Change {
    /// A `pattern`, translated.
    Pattern(String),
    /// A `format`, as a pattern.
    Format(String),
    /// The keys of `patternProperties`, translated, in their order.
    Keys(Vec<String>),
    /// A `uniqueItems` that asks for nothing.
    NotUnique,
}

impl Rewrite {
    fn apply(self, root: &mut Json) -> Result<(), GrammarError> {
        let Self { place, change } = self;
        let Some(subschema) = root.pointer_mut(&place).and_then(Json::as_object_mut) else {
            return Err(refused(&place, "a schema", "nothing"));
        };
        match change {
            Change::Pattern(pattern) => {
                subschema.insert("pattern".to_owned(), pattern.into());
            }
            Change::Format(pattern) => {
                subschema.shift_remove("format");
                let all = subschema.entry("allOf").or_insert_with(|| json!([]));
                if let Some(all) = all.as_array_mut() {
                    all.push(json!({"pattern": pattern}));
                }
            }
            Change::Keys(patterns) => {
                if let Some(map) = subschema.get_mut("patternProperties").and_then(Json::as_object_mut) {
                    let values = std::mem::take(map).into_iter().map(|(_, value)| value);
                    *map = patterns.into_iter().zip(values).collect();
                }
            }
            Change::NotUnique => {
                subschema.shift_remove("uniqueItems");
            }
        }
        Ok(())
    }
}

/// The way through all subschemas that take part; places are JSON pointers.
struct Walk<'a> {
    root: &'a Json,
    draft: Draft,
    seen: HashSet<String>,
    /// In order.
    visited: Vec<String>,
    waiting: Vec<String>,
    rewrites: Vec<Rewrite>,
}

impl Walk<'_> {
    fn visit(&mut self, place: &str) -> Result<(), GrammarError> {
        if !self.seen.insert(place.to_owned()) {
            return Ok(());
        }
        self.visited.push(place.to_owned());
        if self.seen.len() > MAX_SUBSCHEMAS {
            return Err(refused(place, format!("at most {MAX_SUBSCHEMAS} subschemas"), "more"));
        }
        if place.split('/').count() > MAX_DEPTH {
            return Err(refused(place, format!("at most {MAX_DEPTH} levels of nesting"), "more"));
        }
        let subschema = match self.root.pointer(place) {
            Some(Json::Object(subschema)) => subschema,
            Some(Json::Bool(_)) => return Ok(()),
            Some(other) => return Err(refused(place, "a schema: an object or a boolean", &shown(other))),
            None => return Err(refused(place, "a schema", "nothing")),
        };
        for (name, value) in subschema {
            self.keyword(place, name, value)?;
        }
        self.property_counts(place, subschema)
    }

    fn keyword(&mut self, place: &str, name: &str, value: &Json) -> Result<(), GrammarError> {
        let at = child(place, name);
        match Kind::of(name, self.draft) {
            Kind::Annotation => Ok(()),
            Kind::RootOnly if place.is_empty() => Ok(()),
            Kind::RootOnly => Err(refused(&at, format!("`{name}` at the root only"), "it in a subschema")),
            Kind::Schema if self.draft.has_item_lists() && name == "items" && value.is_array() => self.list(&at, value),
            Kind::Schema => {
                self.waiting.push(at);
                Ok(())
            }
            Kind::SchemaList => self.list(&at, value),
            Kind::SchemaMap => self.map(&at, value),
            Kind::PatternMap => {
                self.map(&at, value)?;
                let keys = value.as_object().into_iter().flat_map(Map::keys);
                let patterns = keys.map(|key| pattern::translate(&at, key)).collect::<Result<Vec<_>, _>>()?;
                if patterns.iter().collect::<BTreeSet<_>>().len() < patterns.len() {
                    return Err(refused(&at, "patterns without a common match", "two of the same meaning"));
                }
                self.rewrite(place, Change::Keys(patterns))
            }
            Kind::Reference => self.reference(&at, value),
            Kind::Values => match value {
                Json::Array(values) if name == "enum" => values.iter().try_for_each(|value| constant(&at, value)),
                _ if name == "const" => constant(&at, value),
                other => Err(refused(&at, "an array of values", &shown(other))),
            },
            Kind::Number => numbers::bound(&at, value),
            Kind::NumberOrFlag if self.draft == Draft::Four => match value {
                Json::Bool(_) => Ok(()),
                other => Err(refused(&at, "a boolean, as in draft-04", &shown(other))),
            },
            Kind::NumberOrFlag => numbers::bound(&at, value),
            Kind::Count => numbers::count(&at, value),
            Kind::Pattern => {
                let source = value.as_str().ok_or_else(|| refused(&at, "a string", &shown(value)))?;
                let pattern = pattern::translate(&at, source)?;
                self.rewrite(place, Change::Pattern(pattern))
            }
            Kind::Format => self.rewrite(place, Change::Format(format::pattern(&at, value)?)),
            Kind::Unique if value == &Json::Bool(false) => self.rewrite(place, Change::NotUnique),
            Kind::Unique => Err(refused(&at, "no comparison of items", "`uniqueItems`")),
            Kind::Other => Ok(()),
            Kind::Refused(reason) => Err(refused(&at, reason, &format!("`{name}`"))),
        }
    }

    fn rewrite(&mut self, place: &str, change: Change) -> Result<(), GrammarError> {
        self.rewrites.push(Rewrite { place: place.to_owned(), change });
        Ok(())
    }

    fn list(&mut self, place: &str, value: &Json) -> Result<(), GrammarError> {
        let schemas = value.as_array().ok_or_else(|| refused(place, "an array of schemas", &shown(value)))?;
        self.waiting.extend((0..schemas.len()).map(|index| child(place, &index.to_string())));
        Ok(())
    }

    fn map(&mut self, place: &str, value: &Json) -> Result<(), GrammarError> {
        let schemas = value.as_object().ok_or_else(|| refused(place, "an object of schemas", &shown(value)))?;
        if let Some(key) = schemas.keys().find(|key| key.len() > MAX_FORCED_BYTES) {
            return Err(refused(place, format!("names of at most {MAX_FORCED_BYTES} bytes"), &key.len().to_string()));
        }
        self.waiting.extend(schemas.keys().map(|key| child(place, key)));
        Ok(())
    }

    /// The library reads a reference as plain keys between slashes.
    fn reference(&mut self, place: &str, value: &Json) -> Result<(), GrammarError> {
        let expected =
            "a reference into this document, as in `#/$defs/name`, without empty keys and `~` and `%` escapes";
        match value.as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(target) if reference::is_plain(target) => match self.root.pointer(target) {
                Some(_) => {
                    self.waiting.push(target.to_owned());
                    Ok(())
                }
                None => Err(refused(place, "a reference to something in this document", &shown(value))),
            },
            _ => Err(refused(place, expected, &shown(value))),
        }
    }

    /// A key that no keyword names can be written twice, which the library counts as two properties.
    fn property_counts(&self, place: &str, subschema: &Map<String, Json>) -> Result<(), GrammarError> {
        let Some(minimum) = subschema.get("minProperties").and_then(Json::as_u64) else {
            return Ok(());
        };
        let required = subschema.get("required").and_then(Json::as_array).into_iter().flatten();
        let required = required.filter_map(Json::as_str).collect::<BTreeSet<_>>().len() as u64;
        if minimum > required + 1 {
            let expected =
                format!("at most {} (the required properties and one), since a key can be repeated", required + 1);
            return Err(refused(&child(place, "minProperties"), expected, &minimum.to_string()));
        }
        Ok(())
    }
}

/// A value that has to come as it is: every number exact, every character with a spelling.
fn constant(place: &str, value: &Json) -> Result<(), GrammarError> {
    match value {
        Json::Null | Json::Bool(_) => Ok(()),
        Json::Number(_) => numbers::bound(place, value),
        Json::String(text) if text.len() > MAX_FORCED_BYTES => {
            Err(refused(place, format!("texts of at most {MAX_FORCED_BYTES} bytes"), &text.len().to_string()))
        }
        Json::String(text) => match text.chars().find(|character| unspeakable(*character)) {
            Some(character) => {
                let found = format!("U+{:04X}", u32::from(character));
                Err(refused(place, "no control characters that JSON spells as `\\u` escapes", &found))
            }
            None => Ok(()),
        },
        Json::Array(values) => values.iter().try_for_each(|value| constant(place, value)),
        Json::Object(map) => map.values().try_for_each(|value| constant(place, value)),
    }
}

/// Whether a string of the grammar cannot hold the character.
fn unspeakable(character: char) -> bool {
    character.is_ascii_control() && !"\u{8}\u{c}\n\r\t".contains(character)
}

/// The place of a key below a place.
pub(super) fn child(place: &str, key: &str) -> String {
    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"))
}

pub(super) fn shown(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

pub(super) fn refused(place: &str, expected: impl Into<String>, found: &str) -> GrammarError {
    GrammarError::Refused {
        place: format!("schema {}", if place.is_empty() { "/" } else { place }),
        expected: expected.into(),
        found: found.to_owned(),
    }
}
