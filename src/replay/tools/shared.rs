//! The constraint of tools, by the code that the engine uses: the one place where replay calls it.
//!
//! A grammar's source has no definition but the code that writes it. Comparing the recorded source with a second run of
//! that code shows that the capture's constraint is the one of these tools, in this format, for this tokenizer; it cannot
//! show that the code is right. Whether a finished answer is what was asked for is judged without it ([`super::answer`]).

use super::Format;
use crate::model::Tokenizer;
use crate::tools::{JsonFormat, TaggedFormat, ToolFormat, ToolUse, grammar};

/// The constraint's kind and source; `None` where the tools ask for nothing.
pub(in crate::replay) fn constraint(
    tools: &ToolUse,
    format: Format,
    tokenizer: &Tokenizer,
) -> Option<(&'static str, String)> {
    let format: &dyn ToolFormat = match format {
        Format::Json => &JsonFormat,
        Format::Tagged => &TaggedFormat,
    };
    grammar(tools, format, tokenizer).map(|constraint| (constraint.kind(), constraint.source()))
}
