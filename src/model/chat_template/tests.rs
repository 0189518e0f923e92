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

#[test]
fn a_template_that_does_not_end_or_grows_without_end_is_an_error() {
    for source in [
        "{% for a in range(10000) %}{% for b in range(10000) %}{% set c = a + b %}{% endfor %}{% endfor %}",
        // Twice as long each time.
        "{% set ns = namespace(x='ab') %}{% for a in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for a in range(40) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for a in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=1) %}{% for a in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
        "{{ 'x' * 1000000000 }}",
        "{% for a in range(100000) %}{{ messages }}{{ messages | tojson(indent=1000) }}{% endfor %}",
    ] {
        let error = render(source, &[json!({"role": "user", "content": "a"})]).expect_err(source);
        assert!(error.reason.contains("more than a chat template may"), "{source}: {error}");
    }
    let error = render("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", &[]).expect_err("recursion");
    assert!(error.reason.contains("recursion limit"), "{error}");
}

#[test]
fn depth_does_not_overflow_the_stack() {
    let nested = |turns: usize, show: &str| {
        let deeper = format!("{}ns.x{}", "[".repeat(40), "]".repeat(40));
        let turns = format!("{{% for a in range({turns}) %}}{{% set ns.x = {deeper} %}}{{% endfor %}}");
        render(&format!("{{% set ns = namespace(x=1) %}}{turns}{show}"), &[])
    };
    // As deep as the fuel lets it be, and as deep as it can be shown.
    assert_eq!(nested(7000, "").as_deref(), Ok(""));
    assert_eq!(nested(700, "{{ ns.x }}").map(|text| text.len()), Ok(2 * 28_000 + 1));
    assert_eq!(nested(700, "{{ ns.x == [ns.x] }}").as_deref(), Ok("False"));
    let error = nested(700, "{{ ns.x | tojson }}").expect_err("refused");
    assert!(error.reason.contains("nested"), "{error}");
    let sum = format!("{{{{ 1{} }}}}", "+1".repeat(100_000));
    assert_eq!(render(&sum, &[]).as_deref(), Ok("100001"));
    let long = template(&"x".repeat(LONGEST_SOURCE + 1)).expect_err("too long");
    assert!(long.reason.contains("at most 262144 bytes, found 262145"), "{long}");
}
