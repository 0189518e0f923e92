//! The grammar of an answer that may call tools.

use std::fmt::Write;

use serde_json::json;

use super::{CLOSE, OPEN, Tag, ToolChoice, ToolFormat, ToolUse};
use crate::grammar::Constraint;
use crate::model::Tokenizer;
use crate::types::TokenId;

/// What the output has to look like; `None` where the tools ask for nothing.
///
/// With a choice left to the model, any text may come, and what begins as a call has to go on as one. Where a tag is a
/// special token, only the token opens a call; else its text does.
pub fn grammar(tools: &ToolUse, format: &dyn ToolFormat, tokenizer: &Tokenizer) -> Option<Constraint> {
    let callable = tools.callable();
    if callable.is_empty() {
        return None;
    }
    let tag = |text: &str| tag(text, tokenizer);
    let (open, close) = (tag(OPEN), tag(CLOSE));
    let mut lark = match (&tools.choice, open.is_special) {
        (ToolChoice::Required | ToolChoice::Named(_), _) => format!("start: {} calls\n", open.expression),
        (_, true) => format!("start: text? ({} calls)?\ntext: /(.|\\n)+/\n", open.expression),
        (_, false) => format!("start: text | lead calls\ntext: /(.|\\n)*/\nlead[lazy]: /(.|\\n)*/ {}\n", json!(OPEN)),
    };
    let more = if tools.parallel { format!(" (\"\\n\" {} call)*", open.expression) } else { String::new() };
    let names: Vec<String> = (0..callable.len()).map(|index| format!("tool_{index}")).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(lark, "calls: call{more}\ncall: ({}) {}", names.join(" | "), close.expression);
    for (name, tool) in names.iter().zip(callable) {
        lark += &format.rule(name, tool, &tag);
    }
    Some(Constraint::Lark(lark))
}

/// The special token that a tag is, if it is one.
pub(super) fn special_token(tag: &str, tokenizer: &Tokenizer) -> Option<TokenId> {
    tokenizer.token_id(tag).filter(|token| tokenizer.is_special(*token))
}

fn tag(text: &str, tokenizer: &Tokenizer) -> Tag {
    match special_token(text, tokenizer) {
        Some(token) => Tag { expression: format!("<[{token}]>"), is_special: true },
        None => Tag { expression: json!(text).to_string(), is_special: false },
    }
}
