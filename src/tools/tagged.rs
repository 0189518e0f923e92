//! Calls as tags: one per parameter, with free text between them.

use serde_json::{Map, Value as Json, json};

use super::{Tag, Tool, ToolCall, ToolFormat, find, shortened};

/// `<function=NAME>` and `<parameter=KEY>` tags in `<tool_call>` tags, as Qwen 3 Coder writes calls.
///
/// The value of a string parameter is free text up to the closing tag, so that a grammar cannot forbid it to spell a tag
/// where tags are special tokens. Other values are JSON.
#[derive(Clone, Copy, Debug)]
pub struct TaggedFormat;

const FUNCTION: &str = "<function=";
const END_FUNCTION: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const END_PARAMETER: &str = "</parameter>";

impl ToolFormat for TaggedFormat {
    fn name(&self) -> &'static str {
        "tagged"
    }

    fn tags(&self) -> &'static [&'static str] {
        &[super::OPEN, super::CLOSE, FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER]
    }

    fn instructions(&self) -> &'static str {
        "To call a function, write its name and each of its parameters in tags:\n\
         <tool_call>\n<function=FUNCTION>\n<parameter=PARAMETER>\nVALUE\n</parameter>\n</function>\n</tool_call>"
    }

    fn render(&self, call: &ToolCall) -> String {
        let arguments: Map<String, Json> = serde_json::from_str(&call.arguments).unwrap_or_default();
        let parameter = |(key, value): (&String, &Json)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{PARAMETER}{key}>\n{value}\n{END_PARAMETER}\n")
        };
        let parameters: String = arguments.iter().map(parameter).collect();
        format!("\n{FUNCTION}{}>\n{parameters}{END_FUNCTION}\n", call.name)
    }

    fn rule(&self, name: &str, tool: &Tool, tag: &dyn Fn(&str) -> Tag) -> String {
        let mut rules = String::new();
        let mut body = format!("\"\\n\" {} {}", tag(FUNCTION).expression, quoted(&format!("{}>\n", tool.name)));
        for (index, (key, schema)) in properties(tool).enumerate() {
            let parameter = format!("{name}_{index}");
            let (value, end) = value(&parameter, schema, tag, &mut rules);
            let head = format!("{} {}", tag(PARAMETER).expression, quoted(&format!("{key}>\n")));
            rules += &format!("{parameter}: {head} {value} {end}\n");
            body += &format!(" {parameter}{}", if is_required(tool, key) { "" } else { "?" });
        }
        format!("{name}: {body} {} \"\\n\"\n{rules}", tag(END_FUNCTION).expression)
    }

    fn parse(&self, inside: &str, tools: &[Tool]) -> Result<ToolCall, String> {
        let found = |text: &str| format!("{:?}", shortened(text.trim()));
        let rest = inside.trim_start();
        let rest =
            rest.strip_prefix(FUNCTION).ok_or_else(|| format!("expected `{FUNCTION}NAME>`, found {}", found(rest)))?;
        let (name, rest) =
            rest.split_once('>').ok_or_else(|| format!("`{FUNCTION}` is not closed: {}", found(rest)))?;
        let tool = find(name, tools)?;
        let mut arguments = Map::new();
        let mut rest = rest.trim_start();
        loop {
            if let Some(after) = rest.strip_prefix(END_FUNCTION) {
                if !after.trim().is_empty() {
                    return Err(format!("text after `{END_FUNCTION}`: {}", found(after)));
                }
                return Ok(ToolCall { name: tool.name.clone(), arguments: Json::Object(arguments).to_string() });
            }
            let parameter = rest
                .strip_prefix(PARAMETER)
                .ok_or_else(|| format!("expected `{PARAMETER}KEY>` or `{END_FUNCTION}`, found {}", found(rest)))?;
            let (key, after) = parameter
                .split_once('>')
                .ok_or_else(|| format!("`{PARAMETER}` is not closed: {}", found(parameter)))?;
            let (text, after) = after
                .split_once(END_PARAMETER)
                .ok_or_else(|| format!("parameter `{key}` is not closed: {}", found(after)))?;
            let text = text.strip_prefix('\n').unwrap_or(text);
            let text = text.strip_suffix('\n').unwrap_or(text);
            let schema = properties(tool).find(|(name, _)| *name == key).map(|(_, schema)| schema);
            let value = match schema {
                None => return Err(format!("tool `{name}` has no parameter `{key}`")),
                Some(schema) if is_text(schema) => json!(text),
                Some(_) => serde_json::from_str(text)
                    .map_err(|error| format!("parameter `{key}`: expected JSON, found {} ({error})", found(text)))?,
            };
            if arguments.insert(key.to_owned(), value).is_some() {
                return Err(format!("parameter `{key}` stands there twice"));
            }
            rest = after.trim_start();
        }
    }
}

/// The value of a parameter, and what ends it; rules that they need are added to `rules`.
fn value(parameter: &str, schema: &Json, tag: &dyn Fn(&str) -> Tag, rules: &mut String) -> (String, String) {
    let close = tag(END_PARAMETER);
    let end = format!("\"\\n\" {} \"\\n\"", close.expression);
    let rule = format!("{parameter}_value");
    if let Some(choices) = text_choices(schema) {
        let choices: Vec<String> = choices.iter().map(|choice| quoted(choice)).collect();
        *rules += &format!("{rule}: {}\n", choices.join(" | "));
        return (rule, end);
    }
    if !is_text(schema) {
        *rules += &format!("{rule}: %json {schema}\n");
        return (rule, end);
    }
    if close.is_special {
        // Text runs up to the token; a line break before it is text, too.
        *rules += &format!("{rule}: /(.|\\n)*/\n");
        return (rule, format!("{} \"\\n\"", close.expression));
    }
    *rules += &format!("{rule}[lazy]: /(.|\\n)*/ {}\n", quoted(&format!("\n{END_PARAMETER}\n")));
    (rule, String::new())
}

fn properties(tool: &Tool) -> impl Iterator<Item = (&str, &Json)> {
    let properties = tool.parameters["properties"].as_object();
    properties.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema))
}

fn is_required(tool: &Tool, key: &str) -> bool {
    tool.parameters["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key))
}

fn is_text(schema: &Json) -> bool {
    schema["type"] == "string" || text_choices(schema).is_some()
}

/// The strings that a schema allows, if it lists them.
fn text_choices(schema: &Json) -> Option<Vec<&str>> {
    schema["enum"].as_array()?.iter().map(Json::as_str).collect()
}

/// A text as a Lark string.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}
