//! Each outcome by an answer that has it, in both formats, with tags that are special tokens and tags that are letters.

mod recorded;

use std::fs;
use std::sync::{Arc, LazyLock};

use serde_json::json;

use super::CallOutcome::{AgainstSchema, ClosedTwice, NeverClosed, OtherArguments, TagSpelled, Whole};
use super::*;
use crate::model::Model;
use crate::model::synthetic::SyntheticModel;
use crate::replay::tools::tools_of;

const FORMATS: [CallFormat; 2] = [CallFormat::Json, CallFormat::Tagged];

/// One in which every tag is a special token, and one in which none is.
static SPECIAL: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| tokenizer(CallFormat::Tagged.tags()));
static PLAIN: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| tokenizer(&[]));

/// The synthetic models' tokenizer without its merges, with these special tokens more.
fn tokenizer(special: &[&str]) -> Arc<Tokenizer> {
    let folder = tempfile::tempdir().unwrap();
    SyntheticModel::llama(1).write_hugging_face(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut description: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let merges = description["model"]["merges"].as_array_mut().unwrap();
    let merged = merges.len() as u64;
    merges.clear();
    let vocabulary = description["model"]["vocab"].as_object_mut().unwrap();
    let greatest = vocabulary.values().filter_map(Value::as_u64).max().unwrap();
    let mut free = greatest + 1 - merged;
    vocabulary.retain(|_, id| id.as_u64().unwrap() < free);
    let added = description["added_tokens"].as_array_mut().unwrap();
    for tag in special {
        match added.iter_mut().find(|token| token["content"] == *tag) {
            Some(token) => token["special"] = true.into(),
            None => {
                let mut token = added[0].clone();
                (token["id"], token["content"], token["special"]) = (free.into(), (*tag).into(), true.into());
                added.push(token);
                free += 1;
            }
        }
    }
    fs::write(&path, description.to_string()).unwrap();
    let tokenizer = Model::load(folder.path()).unwrap().tokenizer;
    for tag in CallFormat::Tagged.tags() {
        let is_special = tokenizer.token_id(tag).is_some_and(|token| tokenizer.is_special(token));
        assert_eq!(is_special, special.contains(tag), "{tag}");
    }
    tokenizer
}

fn body(choice: Value) -> Value {
    json!({"tool_choice": choice, "tools": [
        {"type": "function", "function": {"name": "timer", "parameters": {
            "type": "object", "required": ["minutes", "label"], "additionalProperties": false,
            "properties": {"minutes": {"type": "integer", "maximum": 90}, "label": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "note", "parameters": {
            "type": "object", "properties": {"text": {"type": "string"}, "lines": {"type": "array"}}}}},
        {"type": "function", "function": {"name": "odd", "parameters": {
            "type": "object", "properties": {"even": {"type": "integer", "multipleOf": 2}}}}},
    ]})
}

fn tools(choice: Value) -> ToolUse {
    tools_of(body(choice).as_object().unwrap()).unwrap()
}

/// Tokens of a text in which tags are special tokens where the tokenizer has them; between `«` and `»` they are letters.
fn tokens(text: &str, tokenizer: &Tokenizer) -> Vec<u32> {
    let letters = tokenizer.without_special_tokens();
    let stretches = text.split('«').flat_map(|stretch| match stretch.split_once('»') {
        Some((inside, after)) => [(inside, &letters), (after, tokenizer)],
        None => [("", &letters), (stretch, tokenizer)],
    });
    stretches.flat_map(|(text, by)| by.encode(text, false).unwrap()).map(|token| token.0).collect()
}

fn outcome_by(text: &str, asked: &Asked<'_>, tokenizer: &Tokenizer) -> Option<CallOutcome> {
    asked.outcome(&tokens(text, tokenizer), tokenizer).ok()
}

/// Of a request that has to call.
fn outcome(text: &str, format: CallFormat, tokenizer: &Tokenizer) -> Option<CallOutcome> {
    let tools = tools(json!("required"));
    outcome_by(text, &Asked { tools: &tools, format, expected: None }, tokenizer)
}

/// A call with a value for the label of a timer.
fn timer(label: &str, format: CallFormat) -> String {
    match format {
        CallFormat::Json => format!(
            "<tool_call>\n{{\"name\": \"timer\", \"arguments\": {{\"minutes\": 25, \"label\": \"{label}\"}}}}\n</tool_call>"
        ),
        CallFormat::Tagged => format!(
            "<tool_call>\n<function=timer>\n<parameter=minutes>\n25\n</parameter>\n<parameter=label>\n{label}\n</parameter>\n\
             </function>\n</tool_call>"
        ),
    }
}

/// Every case in both formats and with both tokenizers.
fn all() -> impl Iterator<Item = (CallFormat, &'static Tokenizer)> {
    FORMATS.into_iter().flat_map(|format| [(format, &**SPECIAL), (format, &**PLAIN)])
}

#[test]
fn what_is_as_it_should_be_is_whole() {
    for (format, tokenizer) in all() {
        let call = timer("soft eggs", format);
        for text in [call.clone(), format!("{call}\n{call}"), format!("At once. {call} Done.")] {
            assert_eq!(outcome(&text, format, tokenizer), Some(Whole), "{format:?} {text}");
        }
    }
}

#[test]
fn a_call_that_the_answer_ends_in_is_never_closed() {
    for (format, tokenizer) in all() {
        let call = timer("soft eggs", format);
        for (end, _) in call.char_indices().skip("<tool_call>".len()) {
            let found = outcome(&call[..end], format, tokenizer);
            assert_eq!(found, Some(NeverClosed), "{format:?} {}", &call[..end]);
        }
        let another = format!("{call}\n<tool_call>\n");
        assert_eq!(outcome(&another, format, tokenizer), Some(NeverClosed), "{format:?}");
        let twice_opened = format!("<tool_call>\n{call}");
        assert_eq!(outcome(&twice_opened, format, tokenizer), Some(NeverClosed), "{format:?}");
    }
}

/// JSON that the answer ends in has nothing but its own beginning in it.
#[test]
fn letters_of_a_closing_tag_in_json_that_was_cut_close_nothing() {
    for text in [
        "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"a </tool_call> b",
        "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"a </tool_call>",
    ] {
        assert_eq!(outcome(text, CallFormat::Json, &PLAIN), Some(NeverClosed), "{text}");
    }
}

#[test]
fn a_closing_tag_without_a_call_is_one_too_many() {
    for (format, tokenizer) in all() {
        let call = timer("soft eggs", format);
        for text in
            [format!("{call}\n</tool_call>"), format!("</tool_call>{call}"), format!("{call}</tool_call>{call}")]
        {
            assert_eq!(outcome(&text, format, tokenizer), Some(ClosedTwice), "{format:?} {text}");
        }
    }
    // A special token inside of a value is the tag all the same.
    for format in FORMATS {
        assert_eq!(outcome(&timer("a </tool_call> b", format), format, &SPECIAL), Some(ClosedTwice), "{format:?}");
        assert_eq!(outcome(&timer("a <tool_call> b", format), format, &SPECIAL), Some(NeverClosed), "{format:?}");
    }
}

#[test]
fn a_value_that_has_the_letters_of_a_tag_spells_it() {
    for (format, tokenizer) in all() {
        for tag in format.tags() {
            let text = timer(&format!("a «{tag}» b"), format);
            assert_eq!(outcome(&text, format, tokenizer), Some(TagSpelled), "{format:?} {text}");
        }
        // What only looks like one.
        let text = timer("a </tool-call> <b> call>", format);
        assert_eq!(outcome(&text, format, tokenizer), Some(Whole), "{format:?}");
    }
    // JSON in tags, too.
    let lines = "<tool_call>\n<function=note>\n<parameter=lines>\n[\"«</parameter>»\"]\n</parameter>\n</function>\n</tool_call>";
    assert_eq!(outcome(lines, CallFormat::Tagged, &SPECIAL), Some(TagSpelled));
    // The tags of the other format are text in this one.
    assert_eq!(outcome(&timer("a «</parameter>» b", CallFormat::Json), CallFormat::Json, &SPECIAL), Some(Whole));
    // What JSON escapes does not stand there.
    assert_eq!(outcome(&timer("a <\\/tool_call> b", CallFormat::Json), CallFormat::Json, &PLAIN), Some(Whole));
}

/// All of a call's end in letters, and the tokens after it, as a model does that was taught to write it so.
#[test]
fn an_end_that_is_spelled_is_in_the_value() {
    let spelled = timer("soft eggs\n«</parameter>\n</function>\n</tool_call>»", CallFormat::Tagged);
    assert_eq!(outcome(&spelled, CallFormat::Tagged, &SPECIAL), Some(TagSpelled));
    let begun = spelled.split_once('»').unwrap().0.to_owned() + "»";
    assert_eq!(outcome(&begun, CallFormat::Tagged, &SPECIAL), Some(NeverClosed), "the least of the two");
    let closed = format!("{begun}</tool_call>");
    assert_eq!(outcome(&closed, CallFormat::Tagged, &SPECIAL), Some(TagSpelled), "in a value that has no end");
    let json = "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"a\"}}«</tool_call>»</tool_call>";
    assert_eq!(outcome(json, CallFormat::Json, &SPECIAL), Some(AgainstSchema), "not in a value");
    let json = json.replace("a\"}}", "a ").replace("»<", "»\n<");
    assert_eq!(outcome(&json, CallFormat::Json, &SPECIAL), Some(TagSpelled), "in a string that has no end");
}

#[test]
fn what_its_schema_does_not_allow_is_against_it() {
    let json = |call: &str| format!("<tool_call>\n{call}\n</tool_call>");
    let tagged = |call: &str| format!("<tool_call>\n{call}</function>\n</tool_call>");
    let label = "<parameter=label>\ntea\n</parameter>\n";
    let minutes = |value: &str| format!("<function=timer>\n<parameter=minutes>\n{value}\n</parameter>\n{label}");
    for tokenizer in [&*SPECIAL, &*PLAIN] {
        for wrong in [
            json("{\"name\": \"timer\", \"arguments\": {\"minutes\": 91, \"label\": \"tea\"}}"),
            json("{\"name\": \"timer\", \"arguments\": {\"label\": \"tea\"}}"),
            json("{\"name\": \"tuner\", \"arguments\": {}}"),
            json("{\"name\": \"note\", \"arguments\": \"a\"}"),
            json("{\"name\": \"note\", \"arguments\": {}"),
            json("call note"),
        ] {
            assert_eq!(outcome(&wrong, CallFormat::Json, tokenizer), Some(AgainstSchema), "{wrong}");
        }
        for wrong in [
            tagged(&minutes("91")),
            tagged(&minutes("soon")),
            tagged(&minutes("5").replace(label, "")),
            tagged(&minutes("5").replace(label, &label.repeat(2))),
            tagged("<function=tuner>\n"),
            tagged("<function=note>\n<parameter=title>\na\n</parameter>\n"),
            tagged("<function=note>\n<parameter=text>\na\n"),
            tagged(""),
        ] {
            assert_eq!(outcome(&wrong, CallFormat::Tagged, tokenizer), Some(AgainstSchema), "{wrong}");
        }
    }
    // A special token that has no place in a value is not spelled there.
    let forgotten = tagged("<function=note>\n<parameter=text>\na\n<parameter=lines>\n[]\n</parameter>\n");
    assert_eq!(outcome(&forgotten, CallFormat::Tagged, &SPECIAL), Some(AgainstSchema));
    // A value that has no end goes no further than its call.
    let endless = tagged("<function=note>\n<parameter=text>\na\n") + " I closed «</parameter>».";
    assert_eq!(outcome(&endless, CallFormat::Tagged, &SPECIAL), Some(AgainstSchema));
}

#[test]
fn a_call_that_has_to_come_and_does_not_is_against_what_was_asked() {
    let note = "<tool_call>\n{\"name\": \"note\", \"arguments\": {}}\n</tool_call>";
    let by_choice = |choice: Value, text: &str| {
        let tools = tools(choice);
        outcome_by(text, &Asked { tools: &tools, format: CallFormat::Json, expected: None }, &SPECIAL)
    };
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    assert_eq!(by_choice(named("timer"), note), Some(AgainstSchema));
    assert_eq!(by_choice(named("note"), note), Some(Whole));
    for text in ["I cannot.", "", "«<tool_call>»"] {
        assert_eq!(by_choice(json!("required"), text), Some(AgainstSchema), "{text}");
        assert_eq!(by_choice(named("note"), text), Some(AgainstSchema), "{text}");
        assert_eq!(by_choice(json!("auto"), text), None, "{text}");
        assert_eq!(by_choice(Value::Null, text), None, "{text}");
    }
    assert_eq!(by_choice(json!("auto"), note), Some(Whole));
    assert_eq!(by_choice(json!("auto"), &note[..30]), Some(NeverClosed));
    assert_eq!(by_choice(json!("none"), note), None);
}

#[test]
fn other_calls_than_the_expected_ones_are_others() {
    let call = |name: &str, arguments: Value| Call { name: name.to_owned(), arguments };
    let eggs = || call("timer", json!({"label": "soft eggs", "minutes": 25.0}));
    let note = || call("note", json!({"text": "a"}));
    for (format, tokenizer) in all() {
        let tools = tools(json!("auto"));
        let timer = timer("soft eggs", format);
        let by = |text: &str, expected: &[Call]| {
            outcome_by(text, &Asked { tools: &tools, format, expected: Some(expected) }, tokenizer)
        };
        assert_eq!(by(&timer, &[eggs()]), Some(Whole));
        assert_eq!(by(&timer, &[call("timer", json!({"label": "soft egg", "minutes": 25}))]), Some(OtherArguments));
        assert_eq!(by(&timer, &[call("note", json!({"label": "soft eggs", "minutes": 25}))]), Some(OtherArguments));
        assert_eq!(by(&timer, &[]), Some(OtherArguments));
        assert_eq!(by(&timer, &[eggs(), note()]), Some(OtherArguments));
        let noted = match format {
            CallFormat::Json => "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"a\"}}\n</tool_call>",
            CallFormat::Tagged => {
                "<tool_call>\n<function=note>\n<parameter=text>\na\n</parameter>\n</function>\n</tool_call>"
            }
        };
        let both = format!("{timer}\n{noted}");
        assert_eq!(by(&both, &[note(), eggs()]), Some(Whole), "in whatever order");
        assert_eq!(by(&both, &[eggs(), eggs()]), Some(OtherArguments));
        assert_eq!(by(&both, &[eggs()]), Some(OtherArguments));
        // What is broken by itself is that.
        assert_eq!(by(&timer.replace("25", "91"), &[eggs()]), Some(AgainstSchema));
        assert_eq!(by("Nothing to do.", &[eggs()]), None);
    }
}

/// Of one answer the least holds, wherever it stands.
#[test]
fn of_several_outcomes_the_least_holds() {
    for format in FORMATS {
        let whole = timer("soft eggs", format);
        let against = whole.replace("25", "91");
        let spelled = timer("a «</tool_call>» b", format);
        let closed_twice = format!("{whole}</tool_call>");
        let never_closed = whole.strip_suffix("</tool_call>").unwrap();
        let found = |calls: &[&str]| outcome(&calls.concat(), format, &SPECIAL);
        assert_eq!(found(&[&whole, &against, &whole]), Some(AgainstSchema));
        assert_eq!(found(&[&whole, &spelled, &against]), Some(TagSpelled));
        assert_eq!(found(&[&against, &spelled, &whole]), Some(TagSpelled));
        assert_eq!(found(&[&spelled, &closed_twice, &against]), Some(ClosedTwice));
        assert_eq!(found(&[&closed_twice, &spelled, &against, never_closed]), Some(NeverClosed));
        assert_eq!(found(&[never_closed, &closed_twice]), Some(NeverClosed));
    }
    assert!(
        CallOutcome::ALL.is_sorted()
            && CallOutcome::ALL.iter().all(|outcome| outcome.is_broken() == (*outcome != Whole))
    );
}

#[test]
fn what_cannot_be_judged_is_not_known() {
    let odd =
        |even: &str| format!("<tool_call>\n{{\"name\": \"odd\", \"arguments\": {{\"even\": {even}}}}}\n</tool_call>");
    let tools = tools(json!("required"));
    let by = |text: &str, expected: Option<&[Call]>| {
        outcome_by(text, &Asked { tools: &tools, format: CallFormat::Json, expected }, &SPECIAL)
    };
    let expected = |even: i64| [Call { name: "odd".to_owned(), arguments: json!({"even": even}) }];
    assert_eq!(by(&odd("4"), None), None, "a keyword that is not judged");
    assert_eq!(by(&odd("\"4\""), None), Some(AgainstSchema));
    assert_eq!(by(&odd("4"), Some(&expected(4))), Some(Whole));
    assert_eq!(by(&odd("4"), Some(&expected(2))), Some(OtherArguments));
    // A limit of the reader.
    for value in ["1e999".to_owned(), format!("{}{}", "[".repeat(200), "]".repeat(200))] {
        assert_eq!(by(&odd(&value), None), None, "{value}");
        assert_eq!(by(&odd(&value), Some(&expected(4))), None, "{value}");
        assert_eq!(by(&format!("{}</tool_call>", odd(&value)), None), Some(ClosedTwice), "{value}");
        let against = timer("tea", CallFormat::Json).replace("25", "91");
        assert_eq!(by(&(odd(&value) + &against), None), Some(AgainstSchema), "{value}");
    }
}
