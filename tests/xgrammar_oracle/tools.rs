//! Grammars of tools, which llguidance and XGrammar read in other words.

use serde_json::json;
use stepscope::grammar::{Backend, Constraint, Whitespace};
use stepscope::tools::{JsonFormat, TaggedFormat, Tool, ToolChoice, ToolFormat, ToolUse, grammar};

use crate::settings;
use crate::support::Vocabulary;

/// SmolLM2 has no tokens for the tags, so that their texts open and close calls.
#[test]
fn texts_and_calls_are_told_apart_under_both() {
    let tool = Tool {
        name: "look".to_owned(),
        description: None,
        parameters: json!({"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}),
    };
    let tools = |choice: ToolChoice| ToolUse { tools: vec![tool.clone()], choice, parallel: true };
    let calls = |call: &str| [call.to_owned(), format!("{call}\n{call}"), format!("Let me < see\n<tool_cal {call}")];
    let json = "<tool_call>\n{\"name\":\"look\",\"arguments\":{\"at\":\"a <b>\"}}\n</tool_call>";
    let tagged =
        "<tool_call>\n<function=look>\n<parameter=at>\na <b>\n</parameter> c\n</parameter>\n</function>\n</tool_call>";
    for (format, call) in [(&JsonFormat as &dyn ToolFormat, json), (&TaggedFormat, tagged)] {
        for backend in [Backend::Llguidance, Backend::Xgrammar] {
            let vocabulary = Vocabulary::real(settings(backend, Whitespace::None));
            let grammar = |choice| grammar(&tools(choice), format, &vocabulary.tokenizer).unwrap();
            let is_whole = |constraint: &Constraint, text: &str| {
                let tokens = vocabulary.tokenizer.encode(text, false).unwrap();
                let mut matcher = vocabulary.compile(constraint).matcher();
                tokens.iter().all(|token| matcher.consume(*token).is_ok()) && matcher.accepts_end().unwrap()
            };
            let (auto, required) = (grammar(ToolChoice::Auto), grammar(ToolChoice::Required));
            for text in ["", "Text.\n", "a <tool_cal b", "<<tool_call"] {
                assert!(is_whole(&auto, text), "{backend:?} {text:?}");
                assert!(!is_whole(&required, text), "{backend:?} {text:?}");
            }
            for (text, of_required) in calls(call).iter().zip([true, true, false]) {
                assert!(is_whole(&auto, text), "{backend:?} {text:?}");
                assert_eq!(is_whole(&required, text), of_required, "{backend:?} {text:?}");
            }
            for wrong in
                ["<tool_call>", "a <tool_call> b", "<tool_call>\n{}", &format!("{call} "), &call.replace("look", "see")]
            {
                assert!(!is_whole(&auto, wrong) && !is_whole(&required, wrong), "{backend:?} {wrong:?}");
            }
        }
    }
}
