//! A model from a Hugging Face folder: `config.json`, safetensors weights, `tokenizer.json`, and what may stand beside
//! them (`tokenizer_config.json`, `chat_template.jinja`, `generation_config.json`).

mod config;
mod weights;

pub(crate) use config::Llama3Scaling;

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::mapped_file::MappedFile;
use crate::model::Model;
use crate::model::chat_template::{ChatTemplate, SpecialTokenTexts};
use crate::model::error::{ModelError, Problem};
use crate::model::generation_config::{GenerationConfig, token_ids};
use crate::model::identity::{ModelIdentity, WeightsFiles};
use crate::model::tensor_names::{TensorNames, assemble};
use crate::model::tokenizer::{self, Tokenizer};

/// Longest text file that is read: the largest `tokenizer.json` files have about 30 MB.
const LONGEST_TEXT: u64 = 1 << 28;

/// Loads a folder.
pub(crate) fn load(folder: &Path) -> Result<Model, ModelError> {
    let config_path = folder.join("config.json");
    let fields = required_object(&config_path)?;
    let (config, tying) = config::model_config(&fields).map_err(|problem| problem.at(&config_path))?;

    let (tensors, mut files) = weights::open(folder)?;
    let weights = assemble(&config, &TensorNames::hugging_face(config.architecture), tying, tensors)
        .map_err(|problem| problem.at(folder))?;
    files.push(Arc::new(MappedFile::open(&config_path).map_err(|error| Problem::Io(error).at(&config_path))?));
    files.sort_by(|one, other| one.path().cmp(other.path()));

    let generation_config = generation_config(folder)?;
    let tokenizer_path = folder.join("tokenizer.json");
    let text = read(&tokenizer_path)?.ok_or_else(|| {
        Problem::Tokenizer("expected a tokenizer.json in the folder, found none".to_owned()).at(&tokenizer_path)
    })?;
    let tokenizer =
        tokenizer::from_json(&text, config.vocabulary_size).map_err(|problem| problem.at(&tokenizer_path))?;
    let tokenizer_config_path = folder.join("tokenizer_config.json");
    let tokenizer_config = object(&tokenizer_config_path)?.unwrap_or_default();
    let special = special_token_texts(&tokenizer_config).map_err(|problem| problem.at(&tokenizer_config_path))?;
    let tokenizer = with_end_tokens(tokenizer, &special, &generation_config, &fields)
        .map_err(|problem| problem.at(&tokenizer_path))?;
    let chat_template = chat_template(folder, &tokenizer_config, special)?;

    let identity = ModelIdentity::new(
        None,
        folder,
        config.architecture,
        WeightsFiles::Several(files),
        &tokenizer,
        chat_template.as_ref(),
    );
    Ok(Model { identity, config, weights, tokenizer: tokenizer.into(), chat_template, generation_config })
}

/// The end of sequence of the tokenizer, and the end tokens of the generation config, or else of the model config.
fn with_end_tokens(
    tokenizer: Tokenizer,
    special: &SpecialTokenTexts,
    generation_config: &GenerationConfig,
    model_config: &Map<String, Value>,
) -> Result<Tokenizer, Problem> {
    let mut tokens = match generation_config.end_tokens.as_slice() {
        [] => token_ids(model_config, "eos_token_id")?,
        tokens => tokens.to_vec(),
    };
    if let Some(text) = &special.end_of_sequence {
        let token = tokenizer.token_id(text).ok_or_else(|| {
            Problem::Tokenizer(format!("eos_token of tokenizer_config.json: expected a known token, found {text:?}"))
        })?;
        tokens.push(token);
    }
    tokenizer.with_end_tokens(tokens)
}

fn generation_config(folder: &Path) -> Result<GenerationConfig, ModelError> {
    let path = folder.join("generation_config.json");
    match object(&path)? {
        Some(fields) => GenerationConfig::from_json(Value::Object(fields)).map_err(|problem| problem.at(&path)),
        None => Ok(GenerationConfig::default()),
    }
}

/// A special token is a string, or an object whose `content` is one.
fn special_token_texts(tokenizer_config: &Map<String, Value>) -> Result<SpecialTokenTexts, Problem> {
    let text = |name: &str| match tokenizer_config.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_str().or_else(|| value.get("content")?.as_str()) {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(Problem::setting(name, "a string or an object with content", value.to_string())),
        },
    };
    Ok(SpecialTokenTexts { begin_of_sequence: text("bos_token")?, end_of_sequence: text("eos_token")? })
}

/// `chat_template.jinja` comes before the field of `tokenizer_config.json`, as in `transformers`.
fn chat_template(
    folder: &Path,
    tokenizer_config: &Map<String, Value>,
    special: SpecialTokenTexts,
) -> Result<Option<ChatTemplate>, ModelError> {
    let path = folder.join("chat_template.jinja");
    let (path, source) = match read(&path)? {
        Some(text) => {
            let text = String::from_utf8(text).map_err(|error| {
                let offset = error.utf8_error().valid_up_to() as u64;
                let (expected, found) = ("UTF-8".to_owned(), "an invalid sequence".to_owned());
                Problem::Malformed { offset, field: "chat template".to_owned(), expected, found }.at(&path)
            })?;
            (path, text)
        }
        None => {
            let path = folder.join("tokenizer_config.json");
            let source = template_field(tokenizer_config).map_err(|problem| problem.at(&path))?;
            let Some(source) = source else { return Ok(None) };
            (path, source)
        }
    };
    let template = ChatTemplate::new(&source, special);
    template.map(Some).map_err(|error| Problem::ChatTemplate(error).at(&path))
}

/// The template in `tokenizer_config.json`: a string, or a list of named ones, of which `default` is taken.
fn template_field(tokenizer_config: &Map<String, Value>) -> Result<Option<String>, Problem> {
    const KEY: &str = "chat_template";
    let template = match tokenizer_config.get(KEY) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(named)) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))
            .and_then(|entry| entry.get("template")),
        Some(value) => Some(value),
    };
    match template.and_then(Value::as_str) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::setting(KEY, "a string, or a list with a template named default", "something else")),
    }
}

/// The bytes of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ModelError> {
    let length = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Problem::Io(error).at(path)),
    };
    if length > LONGEST_TEXT {
        let expected = format!("at most {LONGEST_TEXT} bytes");
        return Err(Problem::setting("file size", expected, length.to_string()).at(path));
    }
    std::fs::read(path).map(Some).map_err(|error| Problem::Io(error).at(path))
}

/// The JSON object in a file; `None` if there is no such file.
fn object(path: &Path) -> Result<Option<Map<String, Value>>, ModelError> {
    let Some(text) = read(path)? else { return Ok(None) };
    serde_json::from_slice(&text).map(Some).map_err(|error| Problem::Json(error).at(path))
}

fn required_object(path: &Path) -> Result<Map<String, Value>, ModelError> {
    object(path)?.ok_or_else(|| Problem::Io(io::Error::from(io::ErrorKind::NotFound)).at(path))
}
