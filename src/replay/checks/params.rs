//! The parameters follow from the request, the overrides and the generation configuration.
//!
//! Written as a table, apart from the engine's resolution: each parameter's value in each layer, strongest first.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::capture::records::{Admission, ParamSource, ResolvedField};
use crate::grammar::Constraint;
use crate::model::GenerationConfig;
use crate::replay::context::Context;
use crate::replay::tools::{self, format_of, tools_of};
use crate::replay::verdict::{Skip, Verdict};

type Layer = Map<String, Value>;

/// A parameter: its name, whether models recommend it, and how a layer says it.
struct Parameter {
    name: &'static str,
    recommended_by_models: bool,
    read: fn(&Layer, Dialect) -> Option<Value>,
}

/// `logprobs` is a switch in chat completions and a count in completions.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    Chat,
    Completions,
}

/// Every parameter that is resolved.
const PARAMETERS: [Parameter; 16] = [
    Parameter { name: "temperature", recommended_by_models: true, read: |layer, _| given(layer, "temperature") },
    Parameter { name: "top_p", recommended_by_models: true, read: |layer, _| given(layer, "top_p") },
    Parameter { name: "min_p", recommended_by_models: true, read: |layer, _| given(layer, "min_p") },
    Parameter { name: "top_k", recommended_by_models: true, read: top_k },
    Parameter { name: "seed", recommended_by_models: false, read: seed },
    Parameter {
        name: "repetition_penalty",
        recommended_by_models: true,
        read: |layer, _| given(layer, "repetition_penalty"),
    },
    Parameter {
        name: "presence_penalty",
        recommended_by_models: false,
        read: |layer, _| given(layer, "presence_penalty"),
    },
    Parameter {
        name: "frequency_penalty",
        recommended_by_models: false,
        read: |layer, _| given(layer, "frequency_penalty"),
    },
    Parameter { name: "logit_bias", recommended_by_models: false, read: logit_bias },
    Parameter { name: "min_tokens", recommended_by_models: false, read: |layer, _| given(layer, "min_tokens") },
    Parameter { name: "max_tokens", recommended_by_models: true, read: max_tokens },
    Parameter { name: "stop", recommended_by_models: false, read: stop },
    Parameter { name: "stop_token_ids", recommended_by_models: false, read: |layer, _| given(layer, "stop_token_ids") },
    Parameter { name: "ignore_eos", recommended_by_models: false, read: |layer, _| given(layer, "ignore_eos") },
    Parameter { name: "logprobs", recommended_by_models: false, read: logprobs },
    Parameter { name: "n", recommended_by_models: false, read: |layer, _| given(layer, "n") },
];

/// Resolves the request again and compares every field.
pub(in crate::replay) fn check(context: &Context<'_>, admission: &Admission) -> Verdict {
    let mut verdict = Verdict::new();
    let Some(recorded) = &admission.params else {
        return Verdict::skipped(Skip::not_recorded("the resolved parameters are not recorded"));
    };
    let Some(body) = &admission.body else {
        return Verdict::skipped(Skip::not_recorded("the request's body is not recorded"));
    };
    let layers = match Layers::read(body, admission) {
        Ok(layers) => layers,
        Err(Unreadable { what, error }) => {
            verdict.mismatch(what, "a JSON object".to_owned(), error);
            return verdict;
        }
    };
    same_as_model(&mut verdict, context, &layers);
    let mut recorded_by_name: BTreeMap<&str, Vec<&ResolvedField>> = BTreeMap::new();
    for field in recorded {
        recorded_by_name.entry(&field.name).or_default().push(field);
    }
    for parameter in &PARAMETERS {
        match recorded_by_name.remove(parameter.name).as_deref() {
            Some([field]) => compare(&mut verdict, context, &layers, parameter, field),
            Some(fields) => {
                verdict.mismatch(parameter.name, "recorded once".to_owned(), format!("{} times", fields.len()));
            }
            None => verdict.mismatch(parameter.name, "recorded".to_owned(), "absent".to_owned()),
        }
    }
    for name in recorded_by_name.keys() {
        verdict.mismatch((*name).to_owned(), "no such parameter".to_owned(), "recorded".to_owned());
    }
    let choices = recorded.iter().find(|field| field.name == "n").map(|field| field.value.clone());
    verdict.equal("choices", choices, Some(admission.choices.to_string()));
    constrained(&mut verdict, context, admission, &layers.client);
    verdict
}

/// The recorded constraint is what the body asks for, and begins where it has to. For tools that is a comparison with the
/// engine's own code (see [`tools::constraint`]); what came of it is judged without, by the check `commit`.
fn constrained(verdict: &mut Verdict, context: &Context<'_>, admission: &Admission, client: &Layer) {
    let recorded = admission.constraint.as_ref();
    // Recorders that knew no EBNF took every grammar for Lark.
    let is_lark = recorded.is_some_and(|recorded| recorded.kind == "lark");
    let asked = match asked_for(client) {
        Some(("ebnf", source)) if is_lark => Some(("lark", source)),
        Some(asked) => Some(asked),
        None => match (tools_of(client), context.model()) {
            (None, _) => None,
            (Some(tools), Some(model)) => match format_of(context) {
                Ok(format) => tools::constraint(&tools, format, &model.tokenizer),
                Err(skip) => return verdict.skip(skip),
            },
            (Some(_), None) => return verdict.skip(context.preflight.no_model()),
        },
    };
    let recorded_pair = recorded.map(|constraint| (constraint.kind.as_str(), constraint.source.as_str()));
    verdict.equal("constraint", asked.as_ref().map(|(kind, source)| (*kind, source.as_str())), recorded_pair);
    let Some(recorded) = recorded else { return };
    let Some(marker) = context.setting("reasoning-end") else {
        return verdict.equal("begins_after of the constraint", None, recorded.begins_after);
    };
    let Some(model) = context.model() else { return verdict.skip(context.preflight.no_model()) };
    let end = marker.as_str().and_then(|text| model.tokenizer.token_id(text)).map(|token| token.0);
    let end_tokens = context.end_tokens().unwrap_or_default();
    let prompt = &admission.prompt_tokens;
    let message = prompt.iter().rposition(|token| end_tokens.contains(token)).map_or(0, |index| index + 1);
    let is_over = end.is_some_and(|end| prompt[message..].contains(&end));
    verdict.equal("begins_after of the constraint", end.filter(|_| !is_over), recorded.begins_after);
}

/// The constraint that a body spells out, as kind and source.
pub(super) fn asked_for(client: &Layer) -> Option<(&'static str, String)> {
    if let Some(format) = given(client, "response_format") {
        match format["type"].as_str() {
            Some("json_object") => return Some(("json_object", String::new())),
            Some("json_schema") => return Some(("json_schema", format["json_schema"]["schema"].to_string())),
            _ => {}
        }
    }
    let structured = given(client, "structured_outputs")?;
    let text = |name: &str| structured[name].as_str().map(str::to_owned);
    if !structured["json"].is_null() {
        let schema = text("json").and_then(|text| serde_json::from_str::<Value>(&text).ok());
        return Some(("json_schema", schema.unwrap_or(structured["json"].clone()).to_string()));
    }
    if structured["choice"].is_array() {
        return Some(("choice", structured["choice"].to_string()));
    }
    if structured["json_object"] == true {
        return Some(("json_object", String::new()));
    }
    let grammar = |source: String| (Constraint::grammar(&source).kind(), source);
    text("regex").map(|source| ("regex", source)).or_else(|| text("grammar").map(grammar))
}

/// The recorded generation configuration is the model's, where the model is here.
fn same_as_model(verdict: &mut Verdict, context: &Context<'_>, layers: &Layers) {
    let Some(model) = context.model() else { return };
    let of_model = of_model(&model.generation_config);
    for parameter in PARAMETERS.iter().filter(|parameter| parameter.recommended_by_models) {
        let value = |layer| (parameter.read)(layer, Dialect::Chat);
        let (expected, found) = (value(&of_model), value(&layers.model));
        let agrees = match (&expected, &found) {
            (Some(expected), Some(found)) => same(expected, found),
            (expected, found) => expected == found,
        };
        let shown = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| value.to_string());
        verdict.holds(agrees, format!("{} of the model", parameter.name), shown(expected), shown(found));
    }
}

/// What the model recommends, as a layer.
fn of_model(config: &GenerationConfig) -> Layer {
    let number = |value: Option<f32>| value.map(|value| json!(value));
    let given = [
        ("temperature", number(config.temperature)),
        ("top_p", number(config.top_p)),
        ("min_p", number(config.min_p)),
        ("top_k", config.top_k.map(|count| json!(count))),
        ("repetition_penalty", number(config.repetition_penalty)),
        ("max_new_tokens", config.raw.get("max_new_tokens").cloned()),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn compare(
    verdict: &mut Verdict,
    context: &Context<'_>,
    layers: &Layers,
    parameter: &Parameter,
    field: &ResolvedField,
) {
    let found: Value = match serde_json::from_str(&field.value) {
        Ok(found) => found,
        Err(_) => {
            verdict.mismatch(parameter.name, "a JSON value".to_owned(), field.value.clone());
            return;
        }
    };
    let (expected, source) = match layers.resolve(parameter) {
        Some(resolved) => resolved,
        None if parameter.name == "seed" => {
            // A fresh seed follows from nothing; but it is never 0, which a client could have meant.
            let is_fresh = found.as_u64().is_some_and(|seed| seed != 0);
            verdict.holds(is_fresh, "seed", "a number other than 0", &field.value);
            verdict.equal("source of seed", ParamSource::Generated, field.source);
            return;
        }
        None => match default(parameter.name, layers.dialect, context.context_length()) {
            Some(default) => (default, ParamSource::ProtocolDefault),
            None => {
                verdict.skip(Skip::not_recorded("the context's length is not recorded"));
                return;
            }
        },
    };
    verdict.holds(same(&expected, &found), parameter.name, &expected, &found);
    verdict.equal(format!("source of {}", parameter.name), source, field.source);
}

/// The layers of one request, strongest first.
struct Layers {
    dialect: Dialect,
    client: Layer,
    server: Layer,
    model: Layer,
}

struct Unreadable {
    what: &'static str,
    error: String,
}

impl Layers {
    fn read(body: &str, admission: &Admission) -> Result<Self, Unreadable> {
        let layer = |what, text: Option<&str>| match text {
            None => Ok(Layer::new()),
            Some(text) => serde_json::from_str(text).map_err(|error| Unreadable { what, error: error.to_string() }),
        };
        let client = layer("body", Some(body))?;
        let dialect = if given(&client, "messages").is_some() { Dialect::Chat } else { Dialect::Completions };
        let server = layer("server_overrides", admission.server_overrides.as_deref())?;
        let model = layer("generation_config", admission.generation_config.as_deref())?;
        Ok(Self { dialect, client, server, model })
    }

    /// The strongest layer that speaks of the parameter.
    fn resolve(&self, parameter: &Parameter) -> Option<(Value, ParamSource)> {
        let client = || Some(((parameter.read)(&self.client, self.dialect)?, ParamSource::Client));
        let server = || Some(((parameter.read)(&self.server, Dialect::Chat)?, ParamSource::ServerOverride));
        let model = || Some(((parameter.read)(&self.model, Dialect::Chat)?, ParamSource::GenerationConfig));
        client().or_else(server).or_else(|| model().filter(|_| parameter.recommended_by_models))
    }
}

/// What the protocol documents for an omitted field; `None` where it depends on something unknown.
fn default(name: &str, dialect: Dialect, context_length: Option<u32>) -> Option<Value> {
    Some(match name {
        "temperature" | "top_p" | "repetition_penalty" | "n" => json!(1),
        "min_p" | "presence_penalty" | "frequency_penalty" | "min_tokens" => json!(0),
        "logit_bias" => json!({}),
        "stop" | "stop_token_ids" => json!([]),
        "ignore_eos" => json!(false),
        "max_tokens" if dialect == Dialect::Completions => json!(16),
        "max_tokens" => json!(context_length?),
        _ => Value::Null,
    })
}

/// A field that is there; `null` leaves it out.
fn given(layer: &Layer, name: &str) -> Option<Value> {
    layer.get(name).filter(|value| !value.is_null()).cloned()
}

fn top_k(layer: &Layer, _: Dialect) -> Option<Value> {
    given(layer, "top_k").map(|value| if matches!(value.as_i64(), Some(0 | -1)) { Value::Null } else { value })
}

fn seed(layer: &Layer, _: Dialect) -> Option<Value> {
    given(layer, "seed").map(|value| match value.as_i64() {
        Some(negative @ ..0) => json!(negative as u64),
        _ => value,
    })
}

/// One limit under three names: the protocol's old one, its new one, and that of generation configurations.
fn max_tokens(layer: &Layer, _: Dialect) -> Option<Value> {
    ["max_tokens", "max_completion_tokens", "max_new_tokens"].into_iter().find_map(|name| given(layer, name))
}

/// By token id, however the client spelled it.
fn logit_bias(layer: &Layer, _: Dialect) -> Option<Value> {
    given(layer, "logit_bias").map(|value| match value {
        Value::Object(biases) => {
            let id = |name: String| name.parse::<u32>().map_or(name, |id| id.to_string());
            biases.into_iter().map(|(name, bias)| (id(name), bias)).collect::<Layer>().into()
        }
        value => value,
    })
}

fn stop(layer: &Layer, _: Dialect) -> Option<Value> {
    given(layer, "stop").map(|value| if value.is_string() { json!([value]) } else { value })
}

fn logprobs(layer: &Layer, dialect: Dialect) -> Option<Value> {
    let value = given(layer, "logprobs")?;
    match (dialect, value.as_bool()) {
        (Dialect::Completions, _) => Some(value),
        (Dialect::Chat, Some(true)) => Some(given(layer, "top_logprobs").unwrap_or(json!(0))),
        (Dialect::Chat, _) => Some(Value::Null),
    }
}

/// Equality of values as parameters: numbers as binary32 unless they are whole, objects by member.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_u64(), b.as_u64()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64().map(|a| a as f32) == b.as_f64().map(|b| b as f32),
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}
