//! The chain of every parameter as JSON: what each layer says, and which one decides.

use serde_json::{Map, Value, json};

use super::{ParamChain, Request, ResolvedParams, Source};

/// Everything as one JSON object. A fresh seed has no value yet: it is made when the request runs.
pub fn json(request: &Request, model: &str, resolved: &ResolvedParams) -> Value {
    let param = |chain: &ParamChain| {
        let says = |&(source, _): &(Source, _)| Some((key(source), layer(chain, source)?.clone()));
        let value = if chain.source == Source::Generated { Value::Null } else { chain.value.clone() };
        json!({
            "name": chain.name,
            "layers": LAYERS.iter().filter_map(says).collect::<Map<_, _>>(),
            "value": value,
            "source": key(chain.source),
        })
    };
    json!({
        "endpoint": request.endpoint().path(),
        "model": model,
        "params": resolved.chain.iter().map(param).collect::<Vec<_>>(),
        "fresh_seed": resolved.seed.source == Source::Generated,
        "warnings": resolved.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// The decided values alone, each with its layer, as JSON text in ASCII; a fresh seed is told, since the request runs with it.
pub fn told(resolved: &ResolvedParams) -> String {
    let param =
        |chain: &ParamChain| (chain.name.to_owned(), json!({"value": chain.value, "source": key(chain.source)}));
    let text = Value::Object(resolved.chain.iter().map(param).collect()).to_string();
    let ascii = |character: char| match character {
        ' '..='~' => String::from(character),
        _ => character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    text.chars().map(ascii).collect()
}

fn key(source: Source) -> String {
    source.name().replace(' ', "_")
}

/// The layers in the order in which they decide, with their names for people.
pub(crate) const LAYERS: [(Source, &str); 4] = [
    (Source::Client, "client"),
    (Source::ServerOverride, "server override"),
    (Source::GenerationConfig, "generation config"),
    (Source::ProtocolDefault, "protocol default"),
];

/// What a layer says of a parameter.
pub(crate) fn layer(chain: &ParamChain, source: Source) -> Option<&Value> {
    match source {
        Source::Client => chain.client.as_ref(),
        Source::ServerOverride => chain.server_override.as_ref(),
        Source::GenerationConfig => chain.generation_config.as_ref(),
        Source::ProtocolDefault => chain.protocol_default.as_ref(),
        Source::Generated => None,
    }
}
