//! Numbers in schemas.

use serde_json::Value as Json;

use crate::grammar::GrammarError;
use crate::grammar::schema::{refused, shown};

/// Beyond it the library's binary64 leaves out integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number that the library reads exactly.
pub(super) fn bound(place: &str, value: &Json) -> Result<(), GrammarError> {
    let number = value.as_f64().ok_or_else(|| refused(place, "a number", &shown(value)))?;
    if number.abs() > EXACT || (number.abs() == EXACT && !value.is_f64()) {
        return Err(refused(place, "a number of at most 2^53 in size", &shown(value)));
    }
    Ok(())
}

/// A number of things.
pub(super) fn count(place: &str, value: &Json) -> Result<(), GrammarError> {
    match value.as_u64() {
        Some(count) if u32::try_from(count).is_ok() => Ok(()),
        _ => Err(refused(place, format!("an integer from 0 to {}", u32::MAX), &shown(value))),
    }
}
