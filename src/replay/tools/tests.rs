//! The plain code against the engine's, and the judge of answers against answers that are right and wrong.

use std::fs;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::synthetic::SyntheticModel;
use crate::model::{Model, Tokenizer};
use crate::tools::{self as engine, JsonFormat, TaggedFormat, ToolFormat};
use crate::types::TokenId;

const FORMATS: [(Format, &'static dyn ToolFormat); 2] = [(Format::Json, &JsonFormat), (Format::Tagged, &TaggedFormat)];

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

/// Tokenizers in which the tags are no special tokens; in which those of a call are; and in which `</parameter>` is, too.
fn tokenizers() -> [Arc<Tokenizer>; 3] {
    let folder = tempfile::tempdir().unwrap();
    SyntheticModel::llama(1).write_hugging_face(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut description: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for token in description["added_tokens"].as_array_mut().unwrap() {
        let is_tag = token["content"].as_str().unwrap().contains("tool_call>");
        token["special"] = (is_tag || token["special"] == true).into();
    }
    let with = |text: String| {
        fs::write(&path, text).unwrap();
        Model::load(folder.path()).unwrap().tokenizer
    };
    let plain = Model::load(folder.path()).unwrap().tokenizer;
    let special = with(description.to_string());
    let all_special = with(description.to_string().replace("<|endoftext|>", END_PARAMETER));
    let specials = |tokenizer: &Arc<Tokenizer>| {
        [CALL, END_CALL, END_PARAMETER]
            .map(|tag| tokenizer.token_id(tag).is_some_and(|token| tokenizer.is_special(token)))
    };
    assert_eq!([&plain, &special, &all_special].map(specials), [[false; 3], [true, true, false], [true; 3]]);
    [plain, special, all_special]
}

/// Tokens of a text, each tag that is a special token as that token.
fn tokens(text: &str, tokenizer: &Tokenizer) -> Vec<u32> {
    tokenizer.encode(text, false).unwrap().iter().map(|token| token.0).collect()
}

/// Tokens of a text, each special token's name as ordinary text.
fn ordinary(text: &str, tokenizer: &Tokenizer) -> Vec<u32> {
    tokens(text, &tokenizer.without_special_tokens())
}

fn calls_of(tokens: &[u32], format: Format, tokenizer: &Tokenizer) -> Value {
    let tools = tools();
    calls_json(&Spelled::new(tokens, tokenizer), format, &Callable::new(&tools))
}

fn judged(tokens: &[u32], is_complete: bool, tools: &ToolUse, format: Format, tokenizer: &Tokenizer) -> Judgement {
    let callable = Callable::new(&tools.tools);
    let spelled = Spelled::new(tokens, tokenizer);
    judge(&Answer { spelled: &spelled, is_complete, tools, callable: &callable, format })
}

/// What the engine reads, and what it says that it could not.
fn engine_reads(tokens: &[u32], format: &'static dyn ToolFormat, tokenizer: &Tokenizer) -> (Value, Vec<String>) {
    let tokens: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
    let parsed = engine::parse(&engine::Spelled::new(&tokens, format, tokenizer), format, &tools());
    (engine::calls_json(&parsed.calls), parsed.problems)
}

fn using(choice: ToolChoice, parallel: bool) -> ToolUse {
    ToolUse { tools: tools(), choice, parallel }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// Three readings of one definition, over texts that are nearly calls, with tags that are tokens or letters.
    #[test]
    fn calls_are_read_alike(pieces in prop::collection::vec((prop::sample::select(vec![
        "<tool_call>", "</tool_call>", "<tool_call>\n", "\n</tool_call>", "<function=weather>", "<function=time>\n", "</function>",
        "<parameter=city>", "<parameter=city>\n", "<parameter=days>\n", "<parameter=tags>", "<parameter=town>", "\n</parameter>",
        "</parameter>\n", "\n</parameter>\n", "\n", " ", "Oslo", "3", "[\"a\"]", "[\"</tool_call>\"]", "\"", "\\n", "{", "}", "é",
        "{\"name\": \"weather\", \"arguments\": {\"city\": \"a\\nb\", \"days\": 3.0}}", "{\"name\": \"tide\", \"arguments\": {}}",
        "{\"arguments\": {}, \"name\": \"time\", \"more\": 1}", "{\"name\": \"time\", \"arguments\": \"{}\"}",
        "<tool_call>{\"name\": \"time\", \"arguments\": {\"b\": 1, \"a\": 1e30}}</tool_call>",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a </tool_call> b <tool_call>\"}}\n</tool_call>",
        "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=weather>\n<parameter=city>\na </parameter> b\n</parameter>\n</function>\n</tool_call>",
    ]), any::<bool>()), 0..12), which in 0..3_usize) {
        static TOKENIZERS: LazyLock<[Arc<Tokenizer>; 3]> = LazyLock::new(tokenizers);
        let tokenizer = &TOKENIZERS[which];
        let spell = |(piece, is_ordinary): &(&str, bool)| match is_ordinary {
            true => ordinary(piece, tokenizer),
            false => tokens(piece, tokenizer),
        };
        let tokens: Vec<u32> = pieces.iter().flat_map(spell).collect();
        for (format, theirs) in FORMATS {
            let (expected, _) = engine_reads(&tokens, theirs, tokenizer);
            prop_assert_eq!(calls_of(&tokens, format, tokenizer).to_string(), expected.to_string(), "{:?}", pieces);
            for choice in [ToolChoice::Auto, ToolChoice::Required] {
                let judged = judged(&tokens, true, &using(choice, true), format, tokenizer);
                if let Judgement::AsAsked { calls: Some(calls), .. } = judged {
                    prop_assert_eq!(calls.to_string(), expected.to_string(), "{:?}", pieces);
                }
            }
        }
    }
}

#[test]
fn calls_are_what_the_text_spells() {
    for tokenizer in tokenizers() {
        let calls = |text: &str, format| calls_of(&tokens(text, &tokenizer), format, &tokenizer);
        let text =
            "Look: <tool_call>{\"name\": \"time\", \"arguments\": {\"at\": \"C:\\\\new\"}}</tool_call> and <tool_call>";
        let expected = json!([{"name": "time", "arguments": "{\"at\":\"C:\\\\new\"}"}]);
        assert_eq!(calls(text, Format::Json), expected);
        let text = "<tool_call><function=weather><parameter=city>\n C:\\new\n\n</parameter>\n<parameter=days>3 </parameter></function></tool_call>";
        let expected = json!([{"name": "weather", "arguments": "{\"city\":\" C:\\\\new\\n\",\"days\":3}"}]);
        assert_eq!(calls(text, Format::Tagged), expected);
    }
}

/// A tag that is spelled inside of a value: in JSON it is text; in free text it breaks the call, which is said.
#[test]
fn a_tag_inside_of_a_value_is_text_or_is_said() {
    for tokenizer in tokenizers() {
        let tool_use = using(ToolChoice::Required, true);
        let spelled = |parts: [&str; 3]| {
            [tokens(parts[0], &tokenizer), ordinary(parts[1], &tokenizer), tokens(parts[2], &tokenizer)].concat()
        };
        for tag in ["<tool_call>", "</tool_call>", "</parameter>"] {
            let inside = format!("a {tag} b");
            let json_call = spelled([
                "<tool_call>\n{\"name\": \"time\", \"arguments\": {\"at\": \"",
                &inside,
                "\"}}\n</tool_call>",
            ]);
            let expected = json!([{"name": "time", "arguments": json!({"at": inside}).to_string()}]);
            // The tool `time` has no parameters: the judge says that, and reads the call all the same.
            assert_eq!(calls_of(&json_call, Format::Json, &tokenizer), expected);
            assert_eq!(engine_reads(&json_call, &JsonFormat, &tokenizer), (expected, Vec::new()));
            let weather = spelled([
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"",
                &inside,
                "\"}}\n</tool_call>",
            ]);
            let Judgement::AsAsked { calls, .. } = judged(&weather, true, &tool_use, Format::Json, &tokenizer) else {
                panic!("{tag}: a call")
            };
            assert_eq!(calls, Some(json!([{"name": "weather", "arguments": json!({"city": inside}).to_string()}])));

            let head = "<tool_call>\n<function=weather>\n<parameter=city>\n";
            let tail = "\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>";
            let tagged = spelled([head, &inside, tail]);
            let expected = json!([{"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}]);
            assert_eq!(calls_of(&tagged, Format::Tagged, &tokenizer), expected);
            let said = format!("call 1: the text of parameter `city` spells the tag `{tag}`");
            assert_eq!(engine_reads(&tagged, &TaggedFormat, &tokenizer), (expected.clone(), vec![said]));
            let Judgement::AsAsked { calls, .. } = judged(&tagged, true, &tool_use, Format::Tagged, &tokenizer) else {
                panic!("{tag}: calls")
            };
            assert_eq!(calls, Some(expected));
        }
    }
}

/// Where a tag is a special token, its letters open no call.
#[test]
fn letters_of_a_special_token_are_text() {
    let [plain, special, _] = tokenizers();
    let call = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
    for (tokenizer, calls) in [(plain, 1), (special, 0)] {
        let letters = ordinary(call, &tokenizer);
        let found = calls_of(&letters, Format::Json, &tokenizer);
        assert_eq!(found.as_array().unwrap().len(), calls);
        let required = judged(&letters, true, &using(ToolChoice::Required, true), Format::Json, &tokenizer);
        assert_eq!(matches!(required, Judgement::AsAsked { .. }), calls == 1, "{required:?}");
        let judged = judged(&letters, true, &using(ToolChoice::Auto, true), Format::Json, &tokenizer);
        assert!(matches!(judged, Judgement::AsAsked { calls: Some(calls), .. } if calls == found));
    }
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
}

/// Both formats, written out.
#[test]
fn a_template_without_a_place_is_told_in_these_words() {
    let weather = r#"{"name":"weather","description":"Tells it.","parameters":{"type":"object","required":["city"],"additionalProperties":false,"properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]},"tags":{"type":"array","items":{"type":"string"}}}}}"#;
    let time = r#"{"name":"time","parameters":{"type":"object","properties":{},"additionalProperties":false}}"#;
    let conversation = [
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "assistant", "content": "Two.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": {"city": "a\nb", "days": 3}}},
            {"id": "b", "type": "function", "function": {"name": "time", "arguments": {}}}]}),
        json!({"role": "tool", "tool_call_id": "a", "content": "noon"}),
    ];
    let described = format!(
        "Be brief.\n\nYou can call functions. These are the functions:\n{weather}\n{time}\nTo call a function, write "
    );
    for (format, words, calls) in [
        (
            Format::Json,
            "its name and its arguments as one JSON object:\n<tool_call>\n{\"name\": FUNCTION, \"arguments\": OBJECT}\n</tool_call>",
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"a\\nb\",\"days\":3}}\n</tool_call>\n\
             <tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>",
        ),
        (
            Format::Tagged,
            "its name and each of its parameters in tags:\n<tool_call>\n<function=FUNCTION>\n<parameter=PARAMETER>\nVALUE\n\
             </parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=weather>\n<parameter=city>\na\nb\n</parameter>\n<parameter=days>\n3\n</parameter>\n\
             </function>\n</tool_call>\n<tool_call>\n<function=time>\n</function>\n</tool_call>",
        ),
    ] {
        let told = told(&conversation, Some(&using(ToolChoice::Auto, true)), format, "no place").messages;
        assert_eq!(told[0], json!({"role": "system", "content": format!("{described}{words}")}));
        assert_eq!(told[1], json!({"role": "assistant", "content": format!("Two.\n{calls}")}));
        assert_eq!(told[2], json!({"role": "user", "content": "<tool_response>\nnoon\n</tool_response>"}));
    }
}

/// What is wrong with an answer; `None` for one that is right, which then is right as far as it goes wherever it is cut.
fn breach_of(text: &str, tools: &ToolUse, format: Format, tokenizer: &Tokenizer) -> Option<String> {
    let tokens = tokens(text, tokenizer);
    match judged(&tokens, true, tools, format, tokenizer) {
        Judgement::Breach { expected, .. } => Some(expected),
        Judgement::Beyond(what) => panic!("{text:?}: beyond: {what}"),
        Judgement::AsAsked { calls, not_judged } => {
            assert!(calls.is_some() && not_judged.is_empty(), "{text:?}: {not_judged:?}");
            for end in 0..tokens.len() {
                let judged = judged(&tokens[..end], false, tools, format, tokenizer);
                assert!(matches!(judged, Judgement::AsAsked { .. }), "{text:?} at {end}: {judged:?}");
            }
            None
        }
    }
}

#[test]
fn a_finished_answer_is_text_or_calls_as_asked() {
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
    for tokenizer in tokenizers() {
        for (text, tools, expected) in &cases {
            let found = breach_of(text, tools, Format::Json, &tokenizer);
            match expected {
                None => assert_eq!(found, None, "{text:?}"),
                Some(part) => assert!(found.as_ref().is_some_and(|found| found.contains(part)), "{text:?}: {found:?}"),
            }
        }
    }
}

#[test]
fn tagged_calls_are_judged_by_their_form() {
    let call = |inside: &str| format!("<tool_call>\n<function=weather>\n{inside}</function>\n</tool_call>");
    let city = "<parameter=city>\nOslo,\nor <b>\n</parameter>\n";
    let tools = using(ToolChoice::Required, true);
    for tokenizer in tokenizers() {
        let breach_of = |text: &str| breach_of(text, &tools, Format::Tagged, &tokenizer);
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
            (call(&format!("{city}<parameter=town>\nA\n</parameter>\n")), "and not \"town\""),
            (call("<parameter=city>\nOslo\n"), "somewhere"),
        ] {
            let found = breach_of(&wrong).unwrap_or_default();
            assert!(found.contains(part), "{wrong:?}: {found:?}");
        }
    }
}

/// What was cut short has to be the beginning of something that may come.
#[test]
fn what_was_cut_short_is_judged_as_far_as_it_goes() {
    let required = using(ToolChoice::Required, true);
    let named = using(ToolChoice::Named("time".to_owned()), true);
    let [tokenizer, ..] = tokenizers();
    let is_begun =
        |text: &str, tools: &ToolUse, format| match judged(&tokens(text, &tokenizer), false, tools, format, &tokenizer)
        {
            Judgement::AsAsked { calls: None, not_judged } => Some(!not_judged.is_empty()),
            Judgement::Breach { .. } => None,
            other => panic!("{text:?}: {other:?}"),
        };
    let json = |text: &str| is_begun(&format!("<tool_call>\n{{\"name\": \"{text}"), &required, Format::Json);
    assert_eq!([json("tim"), json("tin"), json("time\", \"arg"), json("times")], [Some(true), None, Some(true), None]);
    let tagged = |text: &str| is_begun(&format!("<tool_call>\n<function={text}"), &required, Format::Tagged);
    assert_eq!(
        [tagged("wea"), tagged("wet"), tagged("time>"), tagged("time>\n<f")],
        [Some(false), None, Some(false), None]
    );
    assert_eq!(is_begun("<tool_call>\n<function=wea", &named, Format::Tagged), None);
    let parameter = |text: &str| tagged(&format!("weather>\n<parameter={text}"));
    assert_eq!([parameter("ci"), parameter("co"), parameter("unit>\nC\n</par")], [Some(false), None, Some(false)]);
    assert_eq!(
        [parameter("unit>\nK"), parameter("days>\n[1, "), parameter("city>\nanything")],
        [None, Some(true), Some(false)]
    );
}

/// A limit of this reader says nothing of an answer.
#[test]
fn what_is_beyond_this_reader_is_no_breach() {
    let [tokenizer, ..] = tokenizers();
    let tools = using(ToolChoice::Required, true);
    for value in ["1e999".to_owned(), format!("{}{}", "[".repeat(200), "]".repeat(200))] {
        let json = format!("<tool_call>\n{{\"name\": \"time\", \"arguments\": {{\"a\": {value}}}}}\n</tool_call>");
        let tagged = format!(
            "<tool_call>\n<function=weather>\n<parameter=tags>\n{value}\n</parameter>\n</function>\n</tool_call>"
        );
        for (text, format) in [(json, Format::Json), (tagged, Format::Tagged)] {
            let judged = judged(&tokens(&text, &tokenizer), true, &tools, format, &tokenizer);
            assert!(matches!(judged, Judgement::Beyond(_)), "{judged:?}");
        }
    }
}
