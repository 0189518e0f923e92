use serde_json::json;

use super::*;

const RECORDED: &str = include_str!("../../../tests/fixtures/chat_templates.json");

fn template(source: &str) -> Result<ChatTemplate, TemplateError> {
    let special =
        SpecialTokenTexts { begin_of_sequence: Some("<s>".to_owned()), end_of_sequence: Some("</s>".to_owned()) };
    ChatTemplate::new(source, special)
}

fn render(source: &str, messages: &[Value]) -> Result<String, TemplateError> {
    template(source)?.render(ChatPrompt { messages, tools: None, add_generation_prompt: true, unix_seconds: 0 })
}

#[test]
fn renders_what_transformers_renders() {
    let recorded = serde_json::from_str::<Value>(RECORDED).expect("valid JSON");
    assert_eq!(recorded["bos_token"], "<s>");
    let cases = recorded["cases"].as_array().expect("an array of cases");
    assert!(cases.len() >= 5);
    for case in cases {
        let tools = Some(&case["tools"]).filter(|tools| !tools.is_null());
        let prompt = ChatPrompt {
            messages: case["messages"].as_array().expect("messages"),
            tools,
            add_generation_prompt: case["add_generation_prompt"].as_bool().expect("a boolean"),
            unix_seconds: recorded["unix_seconds"].as_u64().expect("seconds"),
        };
        let source = case["template"].as_str().expect("a template");
        let rendered = template(source).and_then(|template| template.render(prompt));
        assert_eq!(rendered.as_deref(), Ok(case["expected"].as_str().expect("a text")), "{}", case["name"]);
    }
}

#[test]
fn a_token_that_the_model_lacks_is_undefined() {
    let template = ChatTemplate::new("{{ bos_token }}{{ bos_token is defined }}", SpecialTokenTexts::default());
    let prompt = ChatPrompt { messages: &[], tools: None, add_generation_prompt: true, unix_seconds: 0 };
    assert_eq!(template.and_then(|template| template.render(prompt)).as_deref(), Ok("False"));
}

#[test]
fn errors_name_the_line() {
    let raised = "first\n{% if messages[0].role != 'user' %}\n{{ raise_exception('roles must alternate') }}{% endif %}";
    for (source, line, reason) in [
        ("a\n{% if %}", 2, "syntax error"),
        ("a\nb\n{% generation %}x", 3, "syntax error"),
        (raised, 3, "roles must alternate"),
        ("\n{{ messages[0].content.no_such_method() }}", 2, "unknown method"),
        ("{{ strftime_now('%Q') }}", 1, "strftime_now: expected one of"),
        ("\n\n{{ 1 | tojson(colour=true) }}", 3, "too many arguments"),
    ] {
        let error = render(source, &[json!({"role": "tool", "content": "x"})]).expect_err(source);
        assert_eq!(error.line, line, "{source:?}: {error}");
        assert!(error.reason.starts_with(reason), "{source:?}: {error}");
    }
    let error = render(raised, &[json!({"role": "tool"})]).expect_err("a refusal");
    assert_eq!(error.to_string(), "chat template, line 3: roles must alternate");
    assert!(render(raised, &[json!({"role": "user"})]).is_ok());
}

#[test]
fn the_source_stays_as_it_was() {
    let source = "{% generation %}{{ 1 }}{%- endgeneration -%}";
    let template = template(source).expect("a valid template");
    assert_eq!(template.source(), source);
    assert_eq!(without_generation_blocks(source), "{% if true %}{{ 1 }}{%- endif -%}");
    assert_eq!(without_generation_blocks("{% broken"), "{% broken");
}
