//! What is to be run again, from a capture: the settings, and the request.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value, json};

use super::changes::Changes;
use crate::capture::CaptureReader;
use crate::capture::records::{Admission, Header};
use crate::cli::record::{Asked, known_keys};
use crate::engine::Received;
use crate::params::{Endpoint, Request, SAMPLING_FIELDS};
use crate::types::{RequestId, SequenceId, TokenId};

/// Settings that change nothing of what is decoded, or say where files were.
const NOT_REPEATED: [&str; 14] = [
    "model",
    "requests",
    "out",
    "outputs",
    "json",
    "threads",
    "backend",
    "isa",
    "tier",
    "top-k-rows",
    "sketches",
    "overflow",
    "draft-model",
    "draft-script",
];
/// Resolved parameters that a request is not given anew, for what is told of an answer stands in its own words.
const OWN_WORDS: [&str; 4] = ["n", "logprobs", "top_logprobs", "max_completion_tokens"];

/// The settings of a capture as a `--config` file has them, and what of them this engine does not know.
pub(super) fn settings(header: &Header) -> anyhow::Result<(toml::Table, Vec<String>)> {
    let known = known_keys();
    let (mut table, mut sampling, mut unknown) = (toml::Table::new(), toml::Table::new(), Vec::new());
    for setting in &header.configuration {
        let value: Value = serde_json::from_str(&setting.value).unwrap_or_else(|_| setting.value.as_str().into());
        if value.is_null() || setting.name.starts_with("draft-model.") {
            continue;
        }
        let value = || toml::Value::try_from(&value).with_context(|| format!("the recorded setting {}", setting.name));
        match setting.name.as_str() {
            name if NOT_REPEATED.contains(&name) => {}
            "grammar.whitespace" => drop(table.insert("grammar-whitespace".to_owned(), value()?)),
            "grammar.canonical-tokens" => {
                let switch = if value()?.as_bool() == Some(true) { "on" } else { "off" };
                table.insert("grammar-canonical".to_owned(), switch.into());
            }
            name => match name.strip_prefix("sampling.") {
                Some(field) => drop(sampling.insert(field.to_owned(), value()?)),
                None if known.iter().any(|key| key == name) => drop(table.insert(name.to_owned(), value()?)),
                None => unknown.push(name.to_owned()),
            },
        }
    }
    if !sampling.is_empty() {
        table.insert("sampling".to_owned(), sampling.into());
    }
    table.insert("tier".to_owned(), "off".into());
    Ok((table, unknown))
}

/// The request as it was asked.
///
/// # Errors
/// If it was refused, or the capture does not have what it said.
pub(super) fn asked(reader: &CaptureReader, number: RequestId) -> anyhow::Result<(Admission, Asked)> {
    let place = format!("{}: request {}", reader.path().display(), number.0);
    let admission = reader.request(number)?.admission;
    let admission = admission.with_context(|| format!("{place} was refused, and ran no step"))?;
    let received = Received {
        client_id: admission.client_id.clone(),
        endpoint: admission.endpoint.clone(),
        body: admission.body.clone(),
    };
    let request = request(&admission, &Map::new()).with_context(|| place.clone())?;
    let prompt = admission.prompt_tokens.iter().map(|token| TokenId(*token)).collect();
    Ok((admission, Asked { number, received, request, prompt }))
}

/// The request with its parameters as they were resolved, but for the changed ones.
pub(super) fn request(admission: &Admission, changed: &Map<String, Value>) -> anyhow::Result<Request> {
    let Some(body) = &admission.body else {
        bail!("the capture does not have its body, by which it could be run again")
    };
    let mut object: Map<String, Value> = serde_json::from_str(body).context("its body is no JSON object")?;
    for field in admission.params.iter().flatten() {
        let name = field.name.as_str();
        let is_given = object.get(name).is_some_and(|value| !value.is_null());
        if is_given || !SAMPLING_FIELDS.contains(&name) || OWN_WORDS.contains(&name) {
            continue;
        }
        match serde_json::from_str(&field.value) {
            Ok(Value::Null) | Err(_) => {}
            Ok(value) => drop(object.insert(name.to_owned(), value)),
        }
    }
    if changed.contains_key("max_tokens") {
        object.remove("max_completion_tokens");
    }
    object.extend(changed.clone());
    let endpoint = admission.endpoint.as_deref().and_then(Endpoint::of_path);
    Ok(Request::parse(&json!(object).to_string(), endpoint)?)
}

/// Where in a sequence a step stands.
pub(super) struct Place {
    /// Tokens that were emitted before it.
    pub(super) emitted: usize,
    /// The step of each token, in order.
    pub(super) steps: Vec<u64>,
}

/// Where a step stands in its sequence.
///
/// # Errors
/// If there is no such sequence or no such step.
pub(super) fn place(reader: &CaptureReader, sequence: SequenceId, step: u64) -> anyhow::Result<Place> {
    let whose = format!("{}: request {}, choice {}", reader.path().display(), sequence.request.0, sequence.choice.0);
    let Some((first, last)) = reader.step_bounds(sequence) else { bail!("{whose}: has no steps") };
    let (mut emitted, mut steps, mut is_there) = (0, Vec::new(), false);
    for record in reader.steps(sequence) {
        let record = record?;
        is_there |= record.step == step;
        if record.step < step {
            emitted += record.emitted.len();
        }
        steps.extend(std::iter::repeat_n(record.step, record.emitted.len()));
    }
    ensure!(is_there, "{whose}: has no step {step}; it has steps {first} to {last} (see `stepscope dump`)");
    Ok(Place { emitted, steps })
}

/// The settings with what changes of them.
pub(super) fn changed(table: &toml::Table, changes: &Changes) -> toml::Table {
    let mut table = table.clone();
    if changes.settings.contains_key("grammar-backend") {
        table.remove("grammar-canonical");
    }
    table.extend(changes.settings.clone());
    table
}
