//! Reads HTML strictly: what this accepts, every browser reads the same way.

use std::collections::{BTreeMap, BTreeSet};

/// Elements that have no end.
const VOID: [&str; 2] = ["meta", "br"];
/// Entities that stand for a character of markup.
const ENTITIES: [&str; 6] = ["amp", "lt", "gt", "quot", "#39", "apos"];

/// What a page is made of.
#[derive(Debug, Default)]
pub struct Page {
    /// How many elements there are of each name.
    pub elements: BTreeMap<String, usize>,
    /// The names of all attributes.
    pub attributes: BTreeSet<String>,
    /// The values of `id`.
    pub ids: BTreeSet<String>,
    /// Its text, without that of `style`.
    pub text: String,
}

/// Reads a page. `Err` says what is not well-formed.
pub fn read(html: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let mut open: Vec<String> = Vec::new();
    let mut referred: Vec<String> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>\n").ok_or("no document type")?;
    while !rest.is_empty() {
        let (text, tag) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        match open.last().map(String::as_str) {
            Some("style") => {}
            Some(_) => page.text.push_str(&unescaped(text)?),
            None if text.trim().is_empty() => {}
            None => return Err(format!("text outside of all elements: {text}")),
        }
        let Some(tag) = tag.strip_prefix('<') else { break };
        let end = tag_end(tag).ok_or_else(|| format!("a tag without an end: {}", &tag[..tag.len().min(60)]))?;
        let (tag, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop();
            if last.as_deref() != Some(name) {
                return Err(format!("</{name}> ends {last:?}"));
            }
            continue;
        }
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name: String = tag.chars().take_while(char::is_ascii_alphanumeric).collect();
        if name.is_empty() {
            return Err(format!("no name of an element: <{tag}>"));
        }
        attributes(&tag[name.len()..], &mut page, &mut referred)?;
        *page.elements.entry(name.clone()).or_default() += 1;
        if !is_closed && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    if !open.is_empty() {
        return Err(format!("never closed: {open:?}"));
    }
    match referred.iter().find(|id| !page.ids.contains(*id)) {
        Some(id) => Err(format!("nothing has the id {id}")),
        None => Ok(page),
    }
}

/// Where a tag ends: at the first `>` that is in no quotes.
fn tag_end(tag: &str) -> Option<usize> {
    let mut is_quoted = false;
    tag.char_indices().find_map(|(index, character)| {
        is_quoted ^= character == '"';
        (character == '>' && !is_quoted).then_some(index)
    })
}

fn attributes(mut rest: &str, page: &mut Page, referred: &mut Vec<String>) -> Result<(), String> {
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(());
        }
        let (name, value) = rest.split_once("=\"").ok_or_else(|| format!("an attribute without quotes: {rest}"))?;
        let (value, after) = value.split_once('"').ok_or_else(|| format!("a value without an end: {rest}"))?;
        if name.is_empty() || !name.chars().all(|character| character.is_ascii_alphanumeric() || character == '-') {
            return Err(format!("no name of an attribute: {name}"));
        }
        let value = unescaped(value)?;
        match name {
            "id" if !page.ids.insert(value.clone()) => return Err(format!("two elements have the id {value}")),
            "aria-labelledby" => referred.extend(value.split(' ').map(str::to_owned)),
            "href" => {
                referred.push(value.strip_prefix('#').ok_or(format!("a link out of the page: {value}"))?.to_owned())
            }
            _ => {}
        }
        page.attributes.insert(name.to_owned());
        rest = after;
    }
}

fn unescaped(text: &str) -> Result<String, String> {
    for after in text.split('&').skip(1) {
        let entity = after.split_once(';').map(|(entity, _)| entity);
        if !entity.is_some_and(|entity| ENTITIES.contains(&entity)) {
            return Err(format!("a bare ampersand: &{}", after.chars().take(20).collect::<String>()));
        }
    }
    if text.contains(['<', '>']) {
        return Err(format!("a bare angle: {text}"));
    }
    if let Some(control) = text.chars().find(|character| character.is_control() && *character != '\n') {
        return Err(format!("a control character: {control:?}"));
    }
    let replaced = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'"), ("&amp;", "&")];
    Ok(replaced.iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character)))
}

#[test]
fn what_is_not_well_formed_is_refused() {
    let page = |body: &str| read(&format!("<!DOCTYPE html>\n<html>{body}</html>"));
    assert_eq!(page("<p id=\"a\">1 &lt; 2</p><a href=\"#a\">x</a>").unwrap().text, "1 < 2x");
    for wrong in [
        "<p>",
        "</p>",
        "<p><b></p></b>",
        "a & b",
        "a > b",
        "<p id=a>x</p>",
        "<p id=\"a\"></p><p id=\"a\"></p>",
        "<a href=\"#nowhere\">x</a>",
        "<a href=\"https://example.org\">x</a>",
        "<p onclick>x</p>",
        "a\u{0}b",
    ] {
        assert!(page(wrong).is_err(), "{wrong}");
    }
}
