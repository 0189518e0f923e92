//! What a header says of files and texts, taken out.

use serde_json::Value;

use super::super::records::{Header, LogitsTier, Redaction, Setting};
use super::Redact;
use super::salt::Salt;

/// What every redaction takes out or hashes, beside what is asked for.
const ALWAYS: [(&str, &str); 9] = [
    ("model.name", "hashed"),
    ("logits", "omitted"),
    ("sketch", "omitted"),
    ("mask", "omitted"),
    ("rows.masks", "hashed"),
    ("rows.statistics.checksum", "hashed"),
    ("stop", "omitted"),
    ("event.message", "omitted"),
    ("loss.reason", "omitted"),
];

const PROMPTS: [(&str, &str); 12] = [
    ("prompt_tokens", "omitted"),
    ("body", "omitted"),
    ("prompt_text", "omitted"),
    ("client_id", "hashed"),
    ("owner", "hashed"),
    ("params", "omitted"),
    ("server_overrides", "omitted"),
    ("generation_config", "omitted"),
    ("constraint", "omitted"),
    ("warnings", "omitted"),
    ("error", "omitted"),
    ("drafts", "hashed"),
];

const OUTPUTS: [(&str, &str); 4] =
    [("emitted", "hashed"), ("drafts", "hashed"), ("text", "omitted"), ("tool_calls", "omitted")];

/// Takes out of `header` what may be a text or the name of a file, and names everything that `what` takes out.
pub(super) fn redact(what: Redact, salt: &Salt, header: &mut Header) {
    if let Some(model) = &mut header.model {
        model.name = salt.name("model", &model.name);
    }
    // No row has a payload any more.
    header.logits_tier = LogitsTier::Off;
    let mut omitted = Vec::new();
    header.configuration.retain_mut(|setting| {
        if !is_name(&setting.name) {
            return false;
        }
        if !may_stay(setting) {
            omitted.push(format!("configuration.{}", setting.name));
            setting.value = "null".to_owned();
        }
        true
    });
    for kernel in header.device.iter_mut().flat_map(|device| &mut device.kernels) {
        let is_within =
            !kernel.name.starts_with('/') && !kernel.name.contains(['\\', ':']) && !kernel.name.contains("..");
        if !is_within {
            kernel.name = kernel.name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        }
    }
    let asked = [(what.prompts(), PROMPTS.as_slice()), (what.outputs(), OUTPUTS.as_slice())];
    let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked).flat_map(|(_, fields)| fields);
    let fields = ALWAYS.iter().chain(asked).map(|&(field, how)| (field.to_owned(), how));
    let omitted = omitted.into_iter().map(|field| (field, "omitted"));
    for (field, how) in fields.chain(omitted) {
        if !header.redactions.iter().any(|known| known.field == field) {
            header.redactions.push(Redaction { field, how: how.to_owned() });
        }
    }
}

/// Numbers, switches, hashes and words of the engine's own stay; names of files and any other text do not.
fn may_stay(setting: &Setting) -> bool {
    let names_file = ["model", "requests", "out", "outputs", "tokenizer", "template", "name", "path", "file", "script"];
    let last = setting.name.rsplit('.').next().unwrap_or_default();
    match serde_json::from_str::<Value>(&setting.value) {
        Ok(Value::Null | Value::Bool(_) | Value::Number(_)) => true,
        Ok(Value::Array(list)) => list.is_empty(),
        Ok(Value::Object(object)) => object.is_empty(),
        Ok(Value::String(text)) => {
            let is_hash = [40, 64].contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
            let is_from_outside = setting.name.starts_with("environment.");
            let names_file = last.split(['-', '_']).any(|word| names_file.contains(&word));
            is_hash || (is_word(&text) && !is_from_outside && !names_file)
        }
        Err(_) => false,
    }
}

/// Whether it is one word, as settings have them: `async`, `float16`, `raw_logprobs`.
pub(super) fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    text.len() <= 24 && text.bytes().all(is_plain)
}

/// Whether it is a name, as settings and parameters have them.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 80 && text.bytes().all(is_plain)
}
