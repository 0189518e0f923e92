//! The plain code against the engine's, and the judge of answers against answers that are right and wrong.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::synthetic::SyntheticModel;
use crate::model::{Model, Tokenizer};
use crate::tools::{self as engine, JsonFormat, TaggedFormat, ToolFormat};

const FORMATS: [(Format, &dyn ToolFormat); 2] = [(Format::Json, &JsonFormat), (Format::Tagged, &TaggedFormat)];

fn tools() -> Vec<Tool> {
    let body = json!({"tools": [
        {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": {
            "type": "object", "required": ["city"], "additionalProperties": false,
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]},
                "tags": {"type": "array", "items": {"type": "string"}}}}}},
        {"type": "function", "function": {"name": "time"}},
    ]});
    tools_of(body.as_object().unwrap()).unwrap().tools
}

fn model() -> Model {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    SyntheticModel::llama(1).write_gguf(&path).unwrap();
    Model::load(&path).unwrap()
}

fn using(choice: ToolChoice, parallel: bool) -> ToolUse {
    ToolUse { tools: tools(), choice, parallel }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// Two readings of one definition, over texts that are nearly calls.
    #[test]
    fn calls_are_read_alike(pieces in prop::collection::vec(prop::sample::select(vec![
        "<tool_call>", "</tool_call>", "<tool_call>\n", "\n</tool_call>", "<function=weather>", "<function=time>\n", "</function>",
        "<parameter=city>", "<parameter=city>\n", "<parameter=days>\n", "<parameter=tags>", "<parameter=town>", "\n</parameter>",
        "</parameter>\n", "\n", " ", "Oslo", "3", "[\"a\"]", "\"", "\\n", "{", "}", "é",
        "{\"name\": \"weather\", \"arguments\": {\"city\": \"a\\nb\", \"days\": 3.0}}", "{\"name\": \"tide\", \"arguments\": {}}",
        "{\"arguments\": {}, \"name\": \"time\", \"more\": 1}", "{\"name\": \"time\", \"arguments\": \"{}\"}",
        "<tool_call>{\"name\": \"time\", \"arguments\": {\"b\": 1, \"a\": 1e30}}</tool_call>",
        "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
    ]), 0..12)) {
        let text = pieces.concat();
        for (format, theirs) in FORMATS {
            let expected = engine::calls_json(&engine::parse(&text, theirs, &tools()).calls);
            prop_assert_eq!(calls_json(&text, format, &tools()).to_string(), expected.to_string(), "{:?}", text);
        }
    }
}

#[test]
fn calls_are_what_the_text_spells() {
    let text =
        "Look: <tool_call>{\"name\": \"time\", \"arguments\": {\"at\": \"C:\\\\new\"}}</tool_call> and <tool_call>";
    let expected = json!([{"name": "time", "arguments": "{\"at\":\"C:\\\\new\"}"}]);
    assert_eq!(calls_json(text, Format::Json, &tools()), expected);
    let text = "<tool_call><function=weather><parameter=city>\n C:\\new\n\n</parameter><parameter=days>3</parameter></function></tool_call>";
    let expected = json!([{"name": "weather", "arguments": "{\"city\":\" C:\\\\new\\n\",\"days\":3}"}]);
    assert_eq!(calls_json(text, Format::Tagged, &tools()), expected);
}

#[test]
fn templates_are_told_alike() {
    let call =
        |arguments| json!({"id": "a", "type": "function", "function": {"name": "weather", "arguments": arguments}});
    let conversations = [
        vec![json!({"role": "system", "content": "Be brief."}), json!({"role": "user", "content": "Time?"})],
        vec![json!({"role": "user", "content": "Time?"})],
        vec![
            json!({"role": "user", "content": "Time?"}),
            json!({"role": "assistant", "content": "Two.", "tool_calls": [
                call(json!({"city": "a\n\"b\"", "days": 3})), call(json!({}))]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "noon"}),
        ],
    ];
    let uses = [None, Some(using(ToolChoice::Auto, true)), Some(using(ToolChoice::None, true))];
    for source in ["no place", "{{ tools }}"] {
        for conversation in &conversations {
            for tools in &uses {
                for (format, theirs) in FORMATS {
                    let expected = engine::for_template(conversation, tools.as_ref(), theirs, source);
                    let found = told(conversation, tools.as_ref(), format, source);
                    assert_eq!((found.messages, found.tools), (expected.messages, expected.tools), "{format:?}");
                }
            }
        }
    }
    let told = told(&conversations[1], uses[1].as_ref(), Format::Json, "no place").messages;
    assert_eq!(told[0]["content"].as_str().unwrap().lines().nth(4), Some("<tool_call>"));
}

fn breach_of(text: &str, tools: &ToolUse, format: Format, tokenizer: &Tokenizer) -> Option<String> {
    let tokens: Vec<u32> = tokenizer.encode(text, false).unwrap().iter().map(|token| token.0).collect();
    let answer = |tokens, is_complete| Answer { tokens, is_complete, tools, format, tokenizer };
    let found = breach(&answer(&tokens, true)).map(|(expected, _)| expected);
    // What is right is right so far, wherever it is cut short; what is wrong is wrong with more to come.
    if found.is_none() {
        (0..tokens.len()).for_each(|end| assert_eq!(breach(&answer(&tokens[..end], false)), None, "{text:?} at {end}"));
    }
    found
}

#[test]
fn a_finished_answer_is_text_or_calls_as_asked() {
    let model = model();
    let weather =
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>";
    let time = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
    let wrong_type = weather.replace('3', "\"three\"");
    let no_city = weather.replace("\"city\": \"Oslo\", ", "");
    let other_key = weather.replace("days", "hours");
    let named = || ToolChoice::Named("time".to_owned());
    let cases: Vec<(String, ToolUse, Option<&str>)> = vec![
        ("Nothing to call.".to_owned(), using(ToolChoice::Auto, true), None),
        (format!("I will look. {weather}\n{time}"), using(ToolChoice::Auto, true), None),
        (weather.to_owned(), using(ToolChoice::Required, false), None),
        (time.to_owned(), using(named(), false), None),
        ("Nothing to call.".to_owned(), using(ToolChoice::Required, true), Some("\"<tool_call>\"")),
        (format!("{weather}\n{time}"), using(ToolChoice::Required, false), Some("nothing after the one call")),
        (weather.to_owned(), using(named(), false), Some("a tool that may be called")),
        (format!("{time} and so on"), using(ToolChoice::Auto, true), Some("\"\\n\"")),
        (time.replace("\n</tool_call>", ""), using(ToolChoice::Auto, true), Some("\"\\n\"")),
        (wrong_type, using(ToolChoice::Auto, true), Some("`days`: \"integer\", and not \"three\"")),
        (no_city, using(ToolChoice::Auto, true), Some("the required key `city`")),
        (other_key, using(ToolChoice::Auto, true), Some("no key `hours`")),
        (time.replace("time", "tide"), using(ToolChoice::Auto, true), Some("a tool that may be called")),
    ];
    for (text, tools, expected) in cases {
        let found = breach_of(&text, &tools, Format::Json, &model.tokenizer);
        match expected {
            None => assert_eq!(found, None, "{text:?}"),
            Some(part) => assert!(found.as_ref().is_some_and(|found| found.contains(part)), "{text:?}: {found:?}"),
        }
    }
}

#[test]
fn tagged_calls_are_judged_by_their_form() {
    let model = model();
    let call = |inside: &str| format!("<tool_call>\n<function=weather>\n{inside}</function>\n</tool_call>");
    let city = "<parameter=city>\nOslo,\nor <b>\n</parameter>\n";
    let tools = using(ToolChoice::Required, true);
    let breach_of = |text: &str| breach_of(text, &tools, Format::Tagged, &model.tokenizer);
    for right in [
        call(city),
        call(&format!("{city}<parameter=days>\n3\n</parameter>\n<parameter=unit>\nF\n</parameter>\n")),
        call("<parameter=city>\n\n</parameter>\n"),
    ] {
        assert_eq!(breach_of(&right), None, "{right:?}");
    }
    for (wrong, part) in [
        (call(""), "the required key `city`"),
        (call(&city.repeat(2)), "parameter `city` once"),
        (call(&format!("{city}<parameter=unit>\nK\n</parameter>\n")), "`unit`: one of"),
        (call(&format!("{city}<parameter=days>\nsoon\n</parameter>\n")), "JSON"),
        (call(&format!("{city}<parameter=town>\nA\n</parameter>\n")), "and not `town`"),
        (call("<parameter=city>\nOslo\n"), "somewhere"),
    ] {
        let found = breach_of(&wrong).unwrap_or_default();
        assert!(found.contains(part), "{wrong:?}: {found:?}");
    }
}

#[test]
fn schemas_are_judged_as_far_as_they_are_known() {
    use super::arguments::fits;
    let nested = json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": ["integer", "null"]}},
        "either": {"anyOf": [{"const": 1}, {"type": "string"}]}}, "additionalProperties": {"type": "boolean"}});
    for right in [json!({"list": [1, null, 2.0]}), json!({"either": "x", "more": true}), json!({"either": 1.0})] {
        assert_eq!(fits(&right, &nested), Ok(()), "{right}");
    }
    for wrong in [json!([]), json!({"list": [1.5]}), json!({"either": 2}), json!({"more": 1})] {
        assert!(fits(&wrong, &nested).is_err(), "{wrong}");
    }
    assert_eq!(fits(&json!(1), &json!({"$ref": "#/x"})), Ok(()));
}
