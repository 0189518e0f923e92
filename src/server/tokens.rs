//! `/tokenize` and `/detokenize`, as vLLM has them.

use serde_json::{Map, Value, json};

use super::error::ApiError;
use crate::exchange::Preparation;
use crate::model::Tokenizer;
use crate::params::{Endpoint, Request, RequestFault};
use crate::types::TokenId;

/// The tokens of a `prompt`, or of `messages` as the chat template renders them.
pub(super) fn tokenize(preparation: &Preparation<'_>, tokenizer: &Tokenizer, body: &str) -> Result<Value, ApiError> {
    let fields =
        Fields::read(body, &["model", "prompt", "add_special_tokens", "messages", "tools", "return_token_strs"])?;
    let tokens = match (fields.given("prompt"), fields.given("messages")) {
        (Some(prompt), None) => {
            fields.only_with("messages", &["tools"])?;
            let text = prompt.as_str().ok_or_else(|| wrong("prompt", "a string", prompt))?;
            let add_special_tokens = fields.switch("add_special_tokens")?.unwrap_or(true);
            let tokens = tokenizer.encode(text, add_special_tokens);
            tokens.map_err(|error| ApiError::refused(format!("`prompt`: {error}"), Some("prompt")))?
        }
        (None, Some(_)) => {
            fields.only_with("prompt", &["add_special_tokens"])?;
            let asked = |field: &str| Some((field.to_owned(), fields.given(field)?.clone()));
            let body: Map<String, Value> = ["messages", "tools"].into_iter().filter_map(asked).collect();
            let request = Request::parse(&Value::Object(body).to_string(), Some(Endpoint::ChatCompletions))?;
            preparation.prompt(&request.input, request.tools.as_ref())?.tokens
        }
        _ => return Err(ApiError::refused("expected either `prompt` or `messages`", Some("prompt"))),
    };
    let text = |token: &TokenId| String::from_utf8_lossy(tokenizer.token_bytes(*token)).into_owned();
    let texts =
        fields.switch("return_token_strs")?.unwrap_or(false).then(|| tokens.iter().map(text).collect::<Vec<_>>());
    Ok(json!({
        "count": tokens.len(),
        "max_model_len": preparation.context_length(),
        "tokens": tokens.iter().map(|token| token.0).collect::<Vec<_>>(),
        "token_strs": texts,
    }))
}

/// The text of `tokens`, special ones spelled out.
pub(super) fn detokenize(tokenizer: &Tokenizer, body: &str) -> Result<Value, ApiError> {
    let fields = Fields::read(body, &["model", "tokens"])?;
    let tokens = fields.given("tokens").unwrap_or(&Value::Null);
    let accepted = format!("an array of token ids, 0 to {}", tokenizer.vocabulary_size().saturating_sub(1));
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).map(TokenId);
        id.filter(|id| id.index() < tokenizer.vocabulary_size()).ok_or_else(|| wrong("tokens", &accepted, value))
    };
    let ids = tokens.as_array().ok_or_else(|| wrong("tokens", &accepted, tokens))?;
    let ids: Vec<TokenId> = ids.iter().map(id).collect::<Result<_, _>>()?;
    Ok(json!({"prompt": tokenizer.decode_with_special_tokens(&ids)}))
}

/// The fields of a body, all of them known.
struct Fields(Map<String, Value>);

impl Fields {
    fn read(body: &str, known: &[&str]) -> Result<Self, ApiError> {
        let value: Value = serde_json::from_str(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            ApiError::from(RequestFault::Syntax { line, column, message: error.to_string() })
        })?;
        let Value::Object(fields) = value else {
            return Err(ApiError::refused("expected a JSON object", None));
        };
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                let message = format!("`{name}` is not a known field here; accepted: {}", known.join(", "));
                Err(ApiError::refused(message, Some(name)))
            }
            None => Ok(Self(fields)),
        }
    }

    fn given(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn switch(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let switch = |value: &Value| value.as_bool().ok_or_else(|| wrong(name, "true or false", value));
        self.given(name).map(switch).transpose()
    }

    /// Refuses fields that mean something beside `other` alone.
    fn only_with(&self, other: &str, fields: &[&str]) -> Result<(), ApiError> {
        match fields.iter().find(|field| self.given(field).is_some()) {
            Some(field) => Err(ApiError::refused(format!("`{field}` is accepted with `{other}` alone"), Some(field))),
            None => Ok(()),
        }
    }
}

fn wrong(field: &str, accepted: &str, found: &Value) -> ApiError {
    let found: String = found.to_string().chars().take(60).collect();
    ApiError::refused(format!("`{field}`: accepted: {accepted}; found: {found}"), Some(field))
}
