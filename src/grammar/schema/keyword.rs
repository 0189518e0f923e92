//! What each keyword is, and which cannot be enforced.

use crate::grammar::schema::draft::Draft;

/// What a keyword holds, and so what has to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It says nothing about validity.
    Annotation,
    /// It belongs to the document.
    RootOnly,
    /// A schema.
    Schema,
    /// An array of schemas.
    SchemaList,
    /// Schemas by name.
    SchemaMap,
    /// Schemas by regular expression.
    PatternMap,
    /// A reference to a schema.
    Reference,
    /// Values that have to come as they are.
    Values,
    /// A number.
    Number,
    /// A number, or a boolean in draft-04.
    NumberOrFlag,
    /// A number of things.
    Count,
    /// A regular expression.
    Pattern,
    /// The name of a format.
    Format,
    /// Whether items have to differ.
    Unique,
    /// The library checks it.
    Other,
    /// It cannot be enforced; the text says what to write instead.
    Refused(&'static str),
}

impl Kind {
    pub fn of(name: &str, draft: Draft) -> Self {
        match name {
            "title" | "description" | "default" | "examples" | "example" | "$comment" | "deprecated" | "readOnly"
            | "writeOnly" | "contentMediaType" | "contentEncoding" | "contentSchema" | "discriminator"
            | "externalDocs" | "xml" => Self::Annotation,
            "$defs" | "definitions" | "$anchor" => Self::Annotation,
            "$schema" | "$id" => Self::RootOnly,
            "id" if draft == Draft::Four => Self::RootOnly,
            "additionalProperties" | "items" => Self::Schema,
            "additionalItems" if draft.has_item_lists() => Self::Schema,
            "additionalItems" => Self::Refused("`prefixItems` and `items`"),
            "allOf" | "anyOf" | "oneOf" => Self::SchemaList,
            "prefixItems" if draft.has_item_lists() => Self::Refused("a list in `items`, as in this draft"),
            "prefixItems" => Self::SchemaList,
            "properties" => Self::SchemaMap,
            "patternProperties" => Self::PatternMap,
            "$ref" => Self::Reference,
            "const" if draft == Draft::Four => Self::Refused("`enum`, as in this draft"),
            "const" | "enum" => Self::Values,
            "minimum" | "maximum" | "multipleOf" => Self::Number,
            "exclusiveMinimum" | "exclusiveMaximum" => Self::NumberOrFlag,
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => Self::Count,
            "pattern" => Self::Pattern,
            "format" => Self::Format,
            "type" | "required" => Self::Other,
            "nullable" => Self::Refused("`null` as one of the types"),
            "if" | "then" | "else" => Self::Refused("no conditions; `anyOf` can list the cases"),
            "not" => Self::Refused("no negation"),
            "uniqueItems" => Self::Unique,
            "contains" | "minContains" | "maxContains" => Self::Refused("no search among items"),
            "propertyNames" => Self::Refused("`patternProperties` and `additionalProperties`"),
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                Self::Refused("no dependencies between properties; `anyOf` can list the cases")
            }
            "unevaluatedProperties" | "unevaluatedItems" => {
                Self::Refused("`additionalProperties` or `items` in each schema")
            }
            "$dynamicRef" | "$recursiveRef" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary" => {
                Self::Refused("`$ref` alone")
            }
            "x-guidance" => Self::Refused("no options of the grammar library"),
            extension if extension.starts_with("x-") => Self::Annotation,
            _ => Self::Refused("a keyword that can be enforced"),
        }
    }
}
