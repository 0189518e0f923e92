//! JSON Schema, as far as XGrammar enforces it.
//!
//! The library goes by one keyword of a subschema and passes over those beside it in silence, some keywords it leaves out
//! with a warning on stderr. What it would loosen is refused here, by name and place; what it can only narrow is narrowed:
//! an object with named properties has no others.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::expression::{self, Subject};
use super::values;
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
/// The greatest divisor of integers that the library takes.
const GREATEST_DIVISOR: u64 = 1024;
/// Decimals of a bound that the library keeps.
const DECIMALS: usize = 6;

/// The key of [`Identities`]: it sorts before every keyword, and admission lets none of this name through.
const IDENTITY: &str = "!";
/// Where the schema of any value stands in the root, likewise.
const ANY: &str = "!any";

/// Numbers for subschemas, each of which gets one under a key that means nothing.
///
/// The library looks by its own spelling of a schema whether it has seen it before, and takes one for another where the
/// spelling leaves a name out or does not escape it. It begins with this key.
#[derive(Default)]
pub(super) struct Identities(u64);

impl Identities {
    /// Gives one to a schema that is an object.
    pub(super) fn give(&mut self, schema: &mut Json) {
        if let Some(schema) = schema.as_object_mut() {
            self.0 += 1;
            schema.insert(IDENTITY.to_owned(), self.0.into());
        }
    }
}

/// The schema as the library is to compile it, not in its strict mode.
///
/// # Errors
/// If any part of it would not be enforced.
pub(super) fn prepare(schema: &Json) -> Result<Json, GrammarError> {
    let Admitted { schema: mut prepared, places } = admit(schema)?;
    let identities = &mut Identities::default();
    for place in &places {
        if let Some(Json::Object(subschema)) = prepared.pointer_mut(place) {
            rewrite(place, subschema, identities)?;
        }
    }
    for place in &places {
        let Some(subschema) = prepared.pointer_mut(place) else { continue };
        if *subschema == Json::Bool(true) {
            *subschema = any();
        }
        identities.give(subschema);
    }
    if let Some(root) = prepared.as_object_mut() {
        root.insert(ANY.to_owned(), any_value(identities));
    }
    Ok(prepared)
}

/// Any value. The library's own rule for it has a space after commas whatever it is told.
fn any() -> Json {
    json!({"$ref": format!("#/{ANY}")})
}

fn any_value(identities: &mut Identities) -> Json {
    let simple = ["null", "boolean", "number", "string"].map(|name| json!({"type": name}));
    let mut items = any();
    identities.give(&mut items);
    let mut values = items.clone();
    identities.give(&mut values);
    let parts = [json!({"type": "array", "items": items}), json!({"type": "object", "additionalProperties": values})];
    let mut cases: Vec<Json> = simple.into_iter().chain(parts).collect();
    cases.iter_mut().for_each(|case| identities.give(case));
    let mut value = json!({"anyOf": cases});
    identities.give(&mut value);
    value
}

fn rewrite(place: &str, subschema: &mut Map<String, Json>, identities: &mut Identities) -> Result<(), GrammarError> {
    strings(place, subschema)?;
    let heads: Vec<&str> = HEADS.iter().copied().filter(|name| subschema.contains_key(*name)).collect();
    if let Some(head) = heads.first() {
        if subschema[*head].as_array().is_some_and(Vec::is_empty) && *head != "const" {
            return Err(refused(&child(place, head), "one at least", "none"));
        }
        of_type(place, head, subschema)?;
        let before: HashSet<String> = subschema.keys().cloned().collect();
        values::rewrite(place, head, subschema, identities)?;
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
    if subschema.get("type").is_some_and(|types| types.as_array().is_some_and(Vec::is_empty)) {
        return Err(refused(&child(place, "type"), "one at least", "none"));
    }
    if !subschema.contains_key("type") {
        let has = |names: &[&str]| names.iter().any(|name| subschema.contains_key(*name));
        let goes_by = has(&["properties", "additionalProperties"]) || has(&["items", "prefixItems"]);
        let mut asked = OF_OBJECTS.iter().chain(OF_ARRAYS).chain(OF_OTHERS);
        if let Some(name) = asked.find(|name| subschema.contains_key(**name)).filter(|_| !goes_by) {
            return Err(refused(place, "`type`, without which xgrammar allows anything", &format!("`{name}` alone")));
        }
        if !goes_by {
            subschema.insert("$ref".to_owned(), any()["$ref"].take());
            return Ok(());
        }
    }
    numbers(place, subschema)?;
    if concerns(subschema, "array", OF_ARRAYS) && !subschema.contains_key("items") {
        let mut items = any();
        identities.give(&mut items);
        subschema.insert("items".to_owned(), items);
    }
    objects(place, subschema, identities)
}

/// Whether values of a type are among those that the schema is about.
fn concerns(subschema: &Map<String, Json>, name: &str, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| subschema.contains_key(*keyword))
        || match subschema.get("type") {
            Some(Json::Array(types)) => types.iter().any(|other| other == name),
            other => other.is_some_and(|other| other == name),
        }
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
        || bounds.iter().any(is_bound)
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
fn objects(place: &str, subschema: &mut Map<String, Json>, identities: &mut Identities) -> Result<(), GrammarError> {
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
    let required = subschema.get("required").and_then(Json::as_array).into_iter().flatten();
    if let Some(name) = required.into_iter().find(|name| !name.as_str().is_some_and(|name| named.contains(name))) {
        let expected = "names that `properties` has, the only ones that xgrammar requires";
        return Err(refused(&child(place, "required"), expected, &shown(name)));
    }
    if !concerns(subschema, "object", OF_OBJECTS) {
        return Ok(());
    }
    match (named.is_empty(), subschema.get("additionalProperties")) {
        (_, Some(Json::Bool(false))) => {}
        (true, Some(_)) => {}
        (true, None) => {
            let mut values = any();
            identities.give(&mut values);
            subschema.insert("additionalProperties".to_owned(), values);
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
