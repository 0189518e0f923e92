//! JSON Schema, as far as XGrammar enforces it.
//!
//! The library goes by one keyword of a subschema and passes over those beside it in silence, some keywords it leaves out
//! with a warning on stderr. What it would loosen is refused here, by name and place; what it can only narrow is narrowed:
//! an object with named properties has no others.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value as Json, json};

use super::expression::{self, Subject};
use crate::grammar::GrammarError;
use crate::grammar::schema::{Admitted, admit, child, refused, shown};

/// The keywords that the library goes by, first come first.
const HEADS: &[&str] = &["$ref", "const", "enum", "anyOf", "oneOf", "allOf"];
/// Those that ask for something of a value, beside heads and `type`.
const OF_OBJECTS: &[&str] =
    &["properties", "additionalProperties", "patternProperties", "required", "minProperties", "maxProperties"];
const OF_ARRAYS: &[&str] = &["items", "prefixItems", "minItems", "maxItems"];
const OF_OTHERS: &[&str] =
    &["pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keys that the library takes no notice of when it looks whether it has seen a schema before, names of properties too.
const UNSEEN: &[&str] =
    &["title", "default", "description", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"];
/// The greatest divisor of integers that the library takes.
const GREATEST_DIVISOR: u64 = 1024;
/// Decimals of a bound that the library keeps.
const DECIMALS: usize = 6;

/// The schema as the library is to compile it, not in its strict mode.
///
/// # Errors
/// If any part of it would not be enforced.
pub(super) fn prepare(schema: &Json) -> Result<Json, GrammarError> {
    let Admitted { schema: mut prepared, places } = admit(schema)?;
    for place in &places {
        if let Some(Json::Object(subschema)) = prepared.pointer_mut(place) {
            rewrite(place, subschema)?;
        }
    }
    check_cache_keys(&prepared, &places)?;
    Ok(prepared)
}

fn rewrite(place: &str, subschema: &mut Map<String, Json>) -> Result<(), GrammarError> {
    strings(place, subschema)?;
    let heads: Vec<&str> = HEADS.iter().copied().filter(|name| subschema.contains_key(*name)).collect();
    if let Some(head) = heads.first() {
        if subschema[*head].as_array().is_some_and(Vec::is_empty) && *head != "const" {
            return Err(refused(&child(place, head), "one at least", "none"));
        }
        of_type(place, head, subschema)?;
        let before: HashSet<String> = subschema.keys().cloned().collect();
        values(head, subschema);
        let beside = HEADS.iter().chain(&["type"]).chain(OF_OBJECTS).chain(OF_ARRAYS).chain(OF_OTHERS);
        let mut beside = beside.filter(|name| *name != head && before.contains(**name));
        if let Some(name) = beside.next() {
            return Err(refused(
                place,
                format!("nothing beside `{head}`, which xgrammar goes by alone"),
                &format!("`{name}`"),
            ));
        }
        let cases = subschema.get(*head).and_then(Json::as_array).map_or(1, Vec::len);
        return match *head {
            "oneOf" if cases > 1 => {
                Err(refused(&child(place, head), "`anyOf`: xgrammar does not keep cases apart", "`oneOf`"))
            }
            "allOf" if cases > 1 => Err(refused(
                &child(place, head),
                "one schema: xgrammar does not join them",
                &format!("{cases} of them"),
            )),
            _ => Ok(()),
        };
    }
    if !subschema.contains_key("type") {
        let has = |names: &[&str]| names.iter().any(|name| subschema.contains_key(*name));
        let goes_by = has(&["properties", "additionalProperties"]) || has(&["items", "prefixItems"]);
        let mut asked = OF_OBJECTS.iter().chain(OF_ARRAYS).chain(OF_OTHERS);
        if let Some(name) = asked.find(|name| subschema.contains_key(**name)).filter(|_| !goes_by) {
            return Err(refused(place, "`type`, without which xgrammar allows anything", &format!("`{name}` alone")));
        }
    }
    numbers(place, subschema)?;
    objects(place, subschema)
}

/// Lengths and patterns as one pattern of what stands between the quotes.
fn strings(place: &str, subschema: &mut Map<String, Json>) -> Result<(), GrammarError> {
    let mut patterns: Vec<String> = Vec::new();
    patterns.extend(subschema.shift_remove("pattern").as_ref().and_then(Json::as_str).map(str::to_owned));
    let is_format = |schema: &Json| {
        schema.as_object().is_some_and(|schema| schema.len() == 1 && schema.get("pattern").is_some_and(Json::is_string))
    };
    if let Some(all) = subschema.get_mut("allOf").and_then(Json::as_array_mut) {
        patterns.extend(
            all.iter().filter(|part| is_format(part)).filter_map(|part| part["pattern"].as_str()).map(str::to_owned),
        );
        all.retain(|part| !is_format(part));
        if all.is_empty() && !patterns.is_empty() {
            subschema.shift_remove("allOf");
        }
    }
    let lengths = ["minLength", "maxLength"].map(|name| subschema.shift_remove(name).as_ref().and_then(Json::as_u64));
    let at = child(place, "pattern");
    let pattern = match (patterns.as_slice(), lengths) {
        ([], [None, None]) => return Ok(()),
        ([], [least, most]) => {
            let least = least.unwrap_or(0);
            if most.is_some_and(|most| most < least) {
                return Err(refused(place, "a `maxLength` of `minLength` or more", "less"));
            }
            expression::json_characters(least, most)
        }
        ([pattern], [None, None]) => expression::translate(pattern, "", Subject::JsonString)
            .map_err(|found| refused(&at, "an expression that xgrammar can follow", &found))?,
        _ => {
            return Err(refused(&at, "one of `pattern`, `format` and lengths: xgrammar goes by one", "more than one"));
        }
    };
    subschema.insert("pattern".to_owned(), pattern.into());
    Ok(())
}

/// Values with parts, as schemas of their parts.
fn values(head: &str, subschema: &mut Map<String, Json>) {
    let Some(value) = subschema.get(head).filter(|_| ["const", "enum"].contains(&head)) else { return };
    match value {
        Json::Array(values) if head == "enum" => {
            if values.iter().any(has_parts) {
                let cases = values.iter().map(constant).collect();
                subschema.shift_remove(head);
                subschema.insert("anyOf".to_owned(), cases);
            }
        }
        value if has_parts(value) => {
            if let Json::Object(parts) = constant(value) {
                subschema.shift_remove(head);
                subschema.extend(parts);
            }
        }
        _ => {}
    }
}

fn has_parts(value: &Json) -> bool {
    value.is_object() || value.is_array()
}

/// A schema of one value, with white space between its parts; the library writes a `const` with none.
fn constant(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let properties: Map<String, Json> = map.iter().map(|(key, value)| (key.clone(), constant(value))).collect();
            let required: Vec<&String> = map.keys().collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        }
        Json::Array(values) if values.is_empty() => json!({"type": "array", "maxItems": 0}),
        Json::Array(values) => {
            let items: Vec<Json> = values.iter().map(constant).collect();
            json!({"type": "array", "prefixItems": items, "items": false, "minItems": items.len()})
        }
        other => json!({"const": other}),
    }
}

/// Values beside their type: those of another type are left out.
fn of_type(place: &str, head: &str, subschema: &mut Map<String, Json>) -> Result<(), GrammarError> {
    if !["const", "enum"].contains(&head) {
        return Ok(());
    }
    let Some(types) = subschema.get("type") else { return Ok(()) };
    let types: Vec<String> = match types {
        Json::Array(types) => types.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        one => one.as_str().map(str::to_owned).into_iter().collect(),
    };
    let is_of = |value: &Json| types.iter().any(|name| is_of_type(value, name));
    let is_left = match &mut subschema[head] {
        Json::Array(values) if head == "enum" => {
            values.retain(is_of);
            !values.is_empty()
        }
        value => is_of(value),
    };
    if !is_left {
        return Err(refused(&child(place, head), "a value of the type", "none"));
    }
    subschema.shift_remove("type");
    Ok(())
}

fn is_of_type(value: &Json, name: &str) -> bool {
    match value {
        Json::Null => name == "null",
        Json::Bool(_) => name == "boolean",
        Json::Number(number) => {
            name == "number" || name == "integer" && number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        Json::String(_) => name == "string",
        Json::Array(_) => name == "array",
        Json::Object(_) => name == "object",
    }
}

fn numbers(place: &str, subschema: &Map<String, Json>) -> Result<(), GrammarError> {
    for name in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
        if let Some(bound) = subschema.get(name).filter(|bound| bound.is_number() && !is_plain(bound)) {
            let expected = format!("a number of at most {DECIMALS} decimals: xgrammar rounds others");
            return Err(refused(&child(place, name), expected, &shown(bound)));
        }
    }
    let Some(divisor) = subschema.get("multipleOf") else { return Ok(()) };
    let is_bound = |name: &&str| subschema.contains_key(*name);
    let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    if subschema.get("type") != Some(&json!("integer"))
        || !divisor.as_u64().is_some_and(|divisor| (1..=GREATEST_DIVISOR).contains(&divisor))
        || bounds.iter().any(|name| is_bound(name))
    {
        let expected = format!("an integer up to {GREATEST_DIVISOR}, of `type` integer without bounds, for xgrammar");
        return Err(refused(&child(place, "multipleOf"), expected, &shown(divisor)));
    }
    Ok(())
}

/// Whether the library writes the number out as it is.
fn is_plain(number: &Json) -> bool {
    let text = number.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    !text.contains(['e', 'E']) && decimals <= DECIMALS
}

/// Named properties and no others, or others alone.
fn objects(place: &str, subschema: &mut Map<String, Json>) -> Result<(), GrammarError> {
    if subschema.contains_key("patternProperties") {
        let expected = "`properties` or `additionalProperties`: xgrammar reads patterns of names in another way";
        return Err(refused(place, expected, "`patternProperties`"));
    }
    let named: HashSet<&str> = subschema
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let required = subschema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    if let Some(name) = required.into_iter().find(|name| !named.contains(name)) {
        let expected = "names that `properties` has, the only ones that xgrammar requires";
        return Err(refused(&child(place, "required"), expected, &format!("{name:?}")));
    }
    let concerns_objects = OF_OBJECTS.iter().any(|name| subschema.contains_key(*name))
        || match subschema.get("type") {
            Some(Json::Array(types)) => types.iter().any(|name| name == "object"),
            other => other.is_some_and(|name| name == "object"),
        };
    if !concerns_objects {
        return Ok(());
    }
    match (named.is_empty(), subschema.get("additionalProperties")) {
        (_, Some(Json::Bool(false))) => {}
        (true, Some(_)) => {}
        (true, None) => {
            subschema.insert("additionalProperties".to_owned(), Json::Bool(true));
        }
        // A name can be spelled with escapes, so that a named property could come under the rules of the others.
        (false, None | Some(Json::Bool(true))) => {
            subschema.insert("additionalProperties".to_owned(), Json::Bool(false));
        }
        (false, Some(_)) => {
            let expected = "no schema of further properties beside `properties`: xgrammar does not keep them apart";
            return Err(refused(&child(place, "additionalProperties"), expected, "one"));
        }
    }
    Ok(())
}

/// Two schemas that the library takes for one: their properties differ by names alone that it does not see.
fn check_cache_keys(root: &Json, places: &[String]) -> Result<(), GrammarError> {
    let schemas: HashSet<&str> = places.iter().map(String::as_str).collect();
    let mut seen: HashMap<String, String> = HashMap::new();
    for place in places {
        let Some(subschema) = root.pointer(place) else { continue };
        let exact = sorted(subschema, place, Some(&schemas)).to_string();
        let known = seen.entry(sorted(subschema, place, None).to_string()).or_insert_with(|| exact.clone());
        if *known != exact {
            let expected = format!("schemas that differ by more than the names {}", UNSEEN.join(", "));
            return Err(refused(place, expected, "one that xgrammar takes for another"));
        }
    }
    Ok(())
}

/// The schema without the keys that are not seen: everywhere, or where they are keywords of one of `schemas`.
fn sorted(value: &Json, place: &str, schemas: Option<&HashSet<&str>>) -> Json {
    match value {
        Json::Object(map) => {
            let is_schema = schemas.is_none_or(|schemas| schemas.contains(place));
            let kept = map.iter().filter(|(key, _)| !(is_schema && UNSEEN.contains(&key.as_str())));
            let kept: BTreeMap<&String, Json> =
                kept.map(|(key, value)| (key, sorted(value, &child(place, key), schemas))).collect();
            json!(kept)
        }
        Json::Array(values) => {
            let item = |(index, value): (usize, &Json)| sorted(value, &child(place, &index.to_string()), schemas);
            values.iter().enumerate().map(item).collect()
        }
        other => other.clone(),
    }
}
