//! Every field that OpenAI and vLLM clients send, and what becomes of it here.

use serde_json::Value;

use super::error::{RequestFault, Warning};
use super::fields::SAMPLING_FIELDS;
use super::json::Member;
use super::output::OUTPUT_FIELDS;
use super::read;
use super::streaming::STREAM_FIELDS;
use super::tools::TOOL_FIELDS;
use super::wire::Endpoint;

/// Fields that say what to generate from rather than how to sample.
const INPUT_FIELDS: &[&str] = &["model", "messages", "prompt"];

/// Fields that are for the provider's bookkeeping, and change nothing in an answer.
const WITHOUT_EFFECT: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "priority",
    "request_id",
];

/// A field of the protocol that cannot be honoured yet, except for the values that ask for nothing.
struct Unsupported {
    name: &'static str,
    asks_for_nothing: fn(&Value) -> bool,
    why: &'static str,
}

const TOOLS: &str = "an older form; use `tools` and `tool_choice`";
const GRAMMAR: &str = "an older name; use `structured_outputs`";
const ANSWER: &str = "the answer has one form; leave it out";
const INPUT: &str = "the prompt has one form; leave it out";
const DECODING: &str = "no such way of decoding; leave it out";

const fn unsupported(name: &'static str, asks_for_nothing: fn(&Value) -> bool, why: &'static str) -> Unsupported {
    Unsupported { name, asks_for_nothing, why }
}

fn never(_: &Value) -> bool {
    false
}

fn is_false(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_true(value: &Value) -> bool {
    value == &Value::Bool(true)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

const UNSUPPORTED: &[Unsupported] = &[
    unsupported("functions", is_empty, TOOLS),
    unsupported("function_call", |value| value == "none", TOOLS),
    unsupported("guided_json", never, GRAMMAR),
    unsupported("guided_regex", never, GRAMMAR),
    unsupported("guided_choice", never, GRAMMAR),
    unsupported("guided_grammar", never, GRAMMAR),
    unsupported("guided_decoding_backend", never, "the grammar backend is the server's choice; leave it out"),
    unsupported("structural_tag", never, "use `tools`, or a grammar in `structured_outputs`"),
    unsupported("bad_words", is_empty, "no word masks; a `logit_bias` of -100 makes single tokens unlikely"),
    unsupported("allowed_token_ids", never, "no token masks; use `logit_bias`"),
    unsupported("logits_processors", is_empty, DECODING),
    unsupported("use_beam_search", is_false, DECODING),
    unsupported("best_of", is_one, "ask for that many choices with `n` and rank them by `logprobs`"),
    unsupported("length_penalty", is_one, DECODING),
    unsupported("prediction", never, DECODING),
    unsupported("echo", is_false, ANSWER),
    unsupported("suffix", |value| value == "", INPUT),
    unsupported("prompt_logprobs", never, "only emitted tokens are reported; use `logprobs`"),
    unsupported("include_stop_str_in_output", is_false, ANSWER),
    unsupported("skip_special_tokens", is_true, ANSWER),
    unsupported("spaces_between_special_tokens", is_true, ANSWER),
    unsupported("return_tokens_as_token_ids", is_false, ANSWER),
    unsupported("return_token_ids", is_false, ANSWER),
    unsupported("detokenize", is_true, ANSWER),
    unsupported("add_special_tokens", never, INPUT),
    unsupported("add_generation_prompt", is_true, INPUT),
    unsupported("continue_final_message", is_false, INPUT),
    unsupported("truncate_prompt_tokens", never, INPUT),
    unsupported("chat_template", never, "the model's own chat template is used; leave it out"),
    unsupported("chat_template_kwargs", is_empty, "the model's own chat template is used; leave it out"),
    unsupported("documents", is_empty, INPUT),
    unsupported("modalities", |value| value == &serde_json::json!(["text"]), "text alone is generated"),
    unsupported("audio", never, "text alone is generated"),
    unsupported("web_search_options", never, "nothing is searched"),
    unsupported("reasoning_effort", never, "no reasoning controls; leave it out"),
    unsupported("include_reasoning", never, "no reasoning controls; leave it out"),
    unsupported("verbosity", never, "ask for it in the prompt"),
    unsupported("kv_transfer_params", never, "one engine holds the whole state"),
    unsupported("top_a", never, DECODING),
    unsupported("tfs", never, DECODING),
    unsupported("typical_p", is_one, DECODING),
    unsupported("mirostat", |value| value.as_f64() == Some(0.0), DECODING),
];

/// Fields that only one of the endpoints has.
const OF_ONE_ENDPOINT: &[(&str, Endpoint)] = &[
    ("messages", Endpoint::ChatCompletions),
    ("max_completion_tokens", Endpoint::ChatCompletions),
    ("top_logprobs", Endpoint::ChatCompletions),
    ("tools", Endpoint::ChatCompletions),
    ("tool_choice", Endpoint::ChatCompletions),
    ("parallel_tool_calls", Endpoint::ChatCompletions),
    ("prompt", Endpoint::Completions),
];

/// Refuses what is unknown or cannot be honoured, and warns of what has no effect.
pub(super) fn check(member: &Member<'_>, endpoint: Endpoint, warnings: &mut Vec<Warning>) -> Result<(), RequestFault> {
    let name = member.name.as_str();
    check_name(name)?;
    if member.value.is_null() {
        return Ok(());
    }
    if let Some(&(_, owner)) = OF_ONE_ENDPOINT.iter().find(|&&(field, owner)| field == name && owner != endpoint) {
        let accepted = format!("nothing here: it is a field of {}", owner.path());
        return Err(RequestFault::value(name, accepted, read::found(&member.value)));
    }
    if [SAMPLING_FIELDS, INPUT_FIELDS, OUTPUT_FIELDS, TOOL_FIELDS, STREAM_FIELDS]
        .iter()
        .any(|fields| fields.contains(&name))
    {
        return Ok(());
    }
    if WITHOUT_EFFECT.contains(&name) {
        warnings.push(Warning::NoEffect { field: name.to_owned() });
        return Ok(());
    }
    match UNSUPPORTED.iter().find(|field| field.name == name) {
        Some(field) if (field.asks_for_nothing)(&member.value) => Ok(()),
        Some(field) => Err(RequestFault::NotSupported { field: name.to_owned(), why: field.why.to_owned() }),
        None => Ok(()),
    }
}

/// Refuses a name that no endpoint has.
pub(super) fn check_name(name: &str) -> Result<(), RequestFault> {
    if all().any(|field| field == name) { Ok(()) } else { Err(unknown(name, all(), &[])) }
}

fn all() -> impl Iterator<Item = &'static str> {
    let unsupported = UNSUPPORTED.iter().map(|field| field.name);
    INPUT_FIELDS
        .iter()
        .chain(SAMPLING_FIELDS)
        .chain(OUTPUT_FIELDS)
        .chain(TOOL_FIELDS)
        .chain(STREAM_FIELDS)
        .chain(WITHOUT_EFFECT)
        .copied()
        .chain(unsupported)
}

/// The fault of an unknown field, with the known one that is spelled most alike.
pub(super) fn unknown(
    name: &str,
    known: impl Iterator<Item = &'static str>,
    accepted: &[&'static str],
) -> RequestFault {
    // A third of the letters may be wrong; more than that is another word.
    let most_edits = (name.chars().count() / 3).max(1);
    let lowercase = name.to_lowercase();
    let closest = known
        .map(|field| (strsim::osa_distance(&lowercase, field), field))
        .filter(|&(edits, _)| edits <= most_edits)
        .min_by_key(|&(edits, _)| edits);
    RequestFault::UnknownField {
        field: name.to_owned(),
        suggestion: closest.map(|(_, field)| field.to_owned()),
        accepted: accepted.iter().map(|&field| field.to_owned()).collect(),
    }
}
