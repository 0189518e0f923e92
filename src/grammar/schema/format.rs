//! The formats of strings, as regular expressions that allow nothing that is not of the format.

use serde_json::Value as Json;

use crate::grammar::GrammarError;
use crate::grammar::schema::{refused, shown};

/// A date of RFC 3339, leap days in leap years only.
const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
     |(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))\
     |(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
/// A time of RFC 3339, without leap seconds, whose right hour depends on the offset.
const TIME: &str =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const HEX: &str = "[0-9a-fA-F]";

/// The regular expression of a format, for the whole string.
pub(super) fn pattern(place: &str, format: &Json) -> Result<String, GrammarError> {
    let expression = match format.as_str() {
        Some("date") => DATE.to_owned(),
        Some("time") => TIME.to_owned(),
        Some("date-time") => format!("{DATE}T{TIME}"),
        Some("duration") => duration(),
        Some("email") => {
            format!("[a-zA-Z0-9_+-]{{1,20}}(?:\\.[a-zA-Z0-9_+-]{{1,20}}){{0,2}}@{LABEL}(?:\\.{LABEL}){{0,2}}")
        }
        Some("hostname") => format!("{LABEL}(?:\\.{LABEL}){{0,2}}"),
        Some("ipv4") => format!("{OCTET}(?:\\.{OCTET}){{3}}"),
        Some("ipv6") => ipv6(),
        Some("uuid") => format!("{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}"),
        Some("uri") => uri(),
        _ => {
            let known = "one of the formats date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri";
            return Err(refused(place, known, &shown(format)));
        }
    };
    Ok(format!("^(?:{expression})$"))
}

/// A duration of RFC 3339, appendix A: every unit down to the last one named.
fn duration() -> String {
    let number = "[0-9]{1,9}";
    let time = format!("T(?:{number}H(?:{number}M(?:{number}S)?)?|{number}M(?:{number}S)?|{number}S)");
    let date = format!("(?:{number}Y(?:{number}M(?:{number}D)?)?|{number}M(?:{number}D)?|{number}D)");
    format!("P(?:{date}(?:{time})?|{time}|{number}W)")
}

/// An address of RFC 4291: eight groups, or fewer around one `::`; no embedded IPv4 address.
fn ipv6() -> String {
    let group = format!("{HEX}{{1,4}}");
    let mut forms = vec![format!("(?:{group}:){{7}}{group}")];
    for before in 0..=7 {
        let head = match before {
            0 => String::new(),
            more => format!("{group}(?::{group}){{{}}}", more - 1),
        };
        let tail = match 7 - before {
            0 => String::new(),
            room => format!("(?:{group}(?::{group}){{0,{}}})?", room - 1),
        };
        forms.push(format!("{head}::{tail}"));
    }
    forms.join("|")
}

/// An absolute URI of RFC 3986 with a host name, or with a path alone.
fn uri() -> String {
    let unreserved = "[a-zA-Z0-9._~!$&'()*+,;=:@-]";
    let character = format!("(?:{unreserved}|%{HEX}{{2}})");
    let path = format!("(?:/{character}*)*");
    let host = format!("{LABEL}(?:\\.{LABEL}){{0,4}}(?::[0-9]{{1,4}})?");
    let rest = format!("(?:\\?(?:{character}|[/?])*)?(?:#(?:{character}|[/?])*)?");
    format!("[a-zA-Z][a-zA-Z0-9+.-]*:(?://{host}{path}|{character}+{path}){rest}")
}
