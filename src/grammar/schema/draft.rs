//! The versions of JSON Schema.

use serde_json::Value as Json;

use crate::grammar::GrammarError;
use crate::grammar::schema::{refused, shown};

/// A version of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Of2019,
    Of2020,
}

impl Draft {
    /// What `$schema` says; without it, the newest.
    pub fn of(schema: &Json) -> Result<Self, GrammarError> {
        let Some(named) = schema.get("$schema") else {
            return Ok(Self::Of2020);
        };
        match named.as_str().map(|name| name.trim_end_matches('#')) {
            Some("https://json-schema.org/draft/2020-12/schema") => Ok(Self::Of2020),
            Some("https://json-schema.org/draft/2019-09/schema") => Ok(Self::Of2019),
            Some("http://json-schema.org/draft-07/schema") => Ok(Self::Seven),
            Some("http://json-schema.org/draft-06/schema") => Ok(Self::Six),
            Some("http://json-schema.org/draft-04/schema") => Ok(Self::Four),
            _ => Err(refused("/$schema", "draft 2020-12, 2019-09, 07, 06 or 04 by its full name", &shown(named))),
        }
    }

    /// Whether `items` may be a list, with `additionalItems` for the rest; later it is `prefixItems` and `items`.
    pub fn has_item_lists(self) -> bool {
        self < Self::Of2020
    }
}
