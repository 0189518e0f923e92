//! Calls as tags: one per parameter, with free text between them.

use serde_json::{Map, Value as Json, json};

use super::begun::uncertain;
use super::begun_json::escaped;
use super::{
    CLOSE, NoCall, OPEN, ReadCall, Reader, Tag, Tool, ToolCall, ToolFormat, Unfit, find, shortened, tagged_schema,
};

/// `<function=NAME>` and `<parameter=KEY>` tags in `<tool_call>` tags, as Qwen 3 Coder writes calls.
///
/// The value of a string parameter is free text up to its closing tag, and a grammar does not forbid it to spell a tag. A
/// call with such a text is broken: who reads text alone takes it for another call. It is said, and not read. Other values
/// are JSON, which may spell what it likes.
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
        &[OPEN, CLOSE, FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER]
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

    fn check(&self, tool: &Tool) -> Result<(), Unfit> {
        tagged_schema::check(tool)
    }

    fn read(&self, answer: &mut Reader<'_>, tools: &[Tool]) -> ReadCall {
        let unformed = |expected: String, answer: &Reader<'_>| {
            NoCall::Unformed(format!("{expected}, found {:?}", shortened(answer.rest().trim())))
        };
        answer.skip_space();
        if !answer.take_tag(FUNCTION) {
            return Err(unformed(format!("expected `{FUNCTION}NAME>`"), answer));
        }
        let name = answer.until(">").ok_or_else(|| unformed(format!("expected `>` after `{FUNCTION}`"), answer))?;
        let tool = find(name, tools).map_err(NoCall::Unformed)?;
        let mut arguments = Map::new();
        let mut broken = None;
        loop {
            answer.skip_space();
            if answer.take_tag(END_FUNCTION) {
                break;
            }
            if !answer.take_tag(PARAMETER) {
                return Err(unformed(format!("expected `{PARAMETER}KEY>` or `{END_FUNCTION}`"), answer));
            }
            let key = answer.until(">").ok_or_else(|| unformed(format!("expected `>` after `{PARAMETER}`"), answer))?;
            let Some(schema) = property(tool, key) else {
                return Err(NoCall::Unformed(format!("tool `{name}` has no parameter `{key}`")));
            };
            let is_not_closed = || NoCall::Unformed(format!("parameter `{key}` is not closed"));
            let value = if is_text(schema) {
                let text = text(answer).ok_or_else(is_not_closed)?;
                if let Some(tag) = self.tags().iter().find(|tag| text.contains(**tag)) {
                    broken = broken.or(Some(format!("the text of parameter `{key}` spells the tag `{tag}`")));
                }
                json!(text)
            } else {
                let before = *answer;
                let value = answer
                    .json()
                    .map_err(|error| unformed(format!("parameter `{key}`: expected JSON ({error})"), &before))?;
                answer.skip_space();
                if !answer.take_tag(END_PARAMETER) {
                    return Err(is_not_closed());
                }
                value
            };
            if arguments.insert(key.to_owned(), value).is_some() {
                return Err(NoCall::Unformed(format!("parameter `{key}` stands there twice")));
            }
        }
        answer.skip_space();
        if !answer.take_tag(CLOSE) {
            return Err(unformed(format!("expected `{CLOSE}` after `{END_FUNCTION}`"), answer));
        }
        match broken {
            Some(problem) => Err(NoCall::Wrong(problem)),
            None => Ok(ToolCall { name: tool.name.clone(), arguments: Json::Object(arguments).to_string() }),
        }
    }

    fn begun(&self, mut answer: Reader<'_>, tools: &[Tool]) -> Option<ToolCall> {
        answer.skip_space();
        answer.take_tag(FUNCTION).then_some(())?;
        let tool = find(answer.until(">")?, tools).ok()?;
        let mut arguments = String::new();
        // Where the answer ends, so does what is certain.
        let _ = begun_parameters(self, &mut answer, tool, &mut arguments);
        Some(ToolCall { name: tool.name.clone(), arguments })
    }
}

/// Writes the certain beginning of the arguments, as the JSON that they will be; `None` where the answer ends in it.
fn begun_parameters(format: &TaggedFormat, answer: &mut Reader<'_>, tool: &Tool, arguments: &mut String) -> Option<()> {
    arguments.push('{');
    let mut keys = Vec::new();
    loop {
        answer.skip_space();
        if answer.take_tag(END_FUNCTION) {
            arguments.push('}');
            return None;
        }
        answer.take_tag(PARAMETER).then_some(())?;
        let key = answer.until(">")?;
        let schema = property(tool, key).filter(|_| !keys.contains(&key))?;
        let comma = if keys.is_empty() { "" } else { "," };
        keys.push(key);
        let head = format!("{comma}{}:", json!(key));
        if !is_text(schema) {
            let value = answer.json().ok()?;
            answer.skip_space();
            answer.take_tag(END_PARAMETER).then_some(())?;
            *arguments += &format!("{head}{value}");
            continue;
        }
        let mut whole = *answer;
        let spells = |text: &str| format.tags().iter().any(|tag| text.contains(*tag));
        match text(&mut whole) {
            Some(text) if spells(text) => return None,
            Some(text) => *arguments += &format!("{head}{}", json!(text)),
            None => {
                let text = certain_text(*answer);
                *arguments += &format!("{head}\"{}", escaped(text));
                return None;
            }
        }
        *answer = whole;
    }
}

/// As much of a free text that has not ended as is certain to be of it.
fn certain_text<'a>(mut answer: Reader<'a>) -> &'a str {
    answer.take("\n");
    let text = answer.rest();
    let close = format!("\n{END_PARAMETER}\n");
    let marks = [close.as_str(), OPEN, CLOSE, FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER];
    let spelled = marks.iter().filter_map(|mark| text.find(mark)).min();
    let text = spelled.map_or(text, |end| &text[..end]);
    &text[..text.len() - uncertain(text, &marks)]
}

/// Free text up to its closing tag: that token where it is one, and else the tag on a line of its own. The line breaks
/// next to the tags are no part of the text.
fn text<'a>(answer: &mut Reader<'a>) -> Option<&'a str> {
    answer.take("\n");
    if answer.is_special(END_PARAMETER) {
        let text = answer.until_tag(END_PARAMETER)?;
        return Some(text.strip_suffix('\n').unwrap_or(text));
    }
    answer.until(&format!("\n{END_PARAMETER}\n"))
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

fn property<'a>(tool: &'a Tool, key: &str) -> Option<&'a Json> {
    tool.parameters["properties"].get(key)
}

fn is_required(tool: &Tool, key: &str) -> bool {
    tool.parameters["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key))
}

fn is_text(schema: &Json) -> bool {
    schema["type"] == "string" || text_choices(schema).is_some()
}

/// The strings that a schema allows, if it lists them.
pub(super) fn text_choices(schema: &Json) -> Option<Vec<&str>> {
    schema["enum"].as_array()?.iter().map(Json::as_str).collect()
}

/// A text as a Lark string.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}
