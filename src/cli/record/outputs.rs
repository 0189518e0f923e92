//! The answers: OpenAI Batch output lines, without a clock or a random id, so that equal runs give equal bytes.

use serde_json::{Value, json};

use crate::engine::{FinishedChoice, Submission};
use crate::exchange::{About, answer};
use crate::model::Tokenizer;
use crate::params::Endpoint;
use crate::params::response::{ErrorBody, ErrorObject};
use crate::types::FinishReason;

/// What is known of an output line before its request has run.
pub(super) struct OutputLine {
    /// Number of the line in the request file, from 1.
    pub line: usize,
    id: String,
    custom_id: Option<String>,
    endpoint: Option<Endpoint>,
    prompt_tokens: u32,
    wants_logprobs: bool,
    refusal: Option<ErrorBody>,
}

impl OutputLine {
    /// The line of a request that came with `custom_id`, or else goes by its line number.
    pub fn new(line: usize, custom_id: Option<String>, endpoint: Option<Endpoint>) -> Self {
        let id = custom_id.clone().unwrap_or_else(|| format!("line-{line}"));
        Self { line, id, custom_id, endpoint, prompt_tokens: 0, wants_logprobs: false, refusal: None }
    }

    /// Notes what the answer will need of a request that runs.
    pub fn accept(&mut self, submission: &Submission) {
        self.prompt_tokens = submission.prompt.tokens.len() as u32;
        self.wants_logprobs = submission.sampling.logprobs.is_some();
    }

    /// Makes the line an error.
    pub fn refuse(&mut self, message: String, field: Option<&str>) {
        let error =
            ErrorObject { message, r#type: "invalid_request_error", param: field.map(str::to_owned), code: None };
        self.refusal = Some(ErrorBody { error });
    }

    /// Why the line is an error, if its request was refused.
    pub fn refusal(&self) -> Option<&ErrorObject> {
        self.refusal.as_ref().map(|body| &body.error)
    }

    /// The `custom_id` that the request came with.
    pub fn custom_id(&self) -> Option<&str> {
        self.custom_id.as_deref()
    }

    /// Tokens of the prompt; 0 for a request that was refused before it was tokenized.
    pub fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    /// The field of the request that holds its prompt.
    pub fn prompt_field(&self) -> &'static str {
        self.endpoint.map_or("prompt", Endpoint::prompt_field)
    }

    /// The line as JSON text; `choices` are those of a request that ran, by index.
    pub fn render(self, choices: Option<Vec<FinishedChoice>>, tokenizer: &Tokenizer, model: &str) -> String {
        let id = self.id.clone();
        let custom_id = self.custom_id.clone();
        let (status, body) = match (self.refusal.clone(), choices) {
            (Some(refusal), _) => (400, json!(refusal)),
            (None, choices) => self.answer(choices.unwrap_or_default(), tokenizer, model),
        };
        let response = json!({ "status_code": status, "request_id": format!("req_{id}"), "body": body });
        json!({ "id": format!("batch_req_{id}"), "custom_id": custom_id, "response": response, "error": null })
            .to_string()
    }

    fn answer(self, choices: Vec<FinishedChoice>, tokenizer: &Tokenizer, model: &str) -> (u16, Value) {
        let failure = choices.iter().find_map(|choice| match &choice.reason {
            FinishReason::Failed(message) => Some(message),
            _ => None,
        });
        if let Some(message) = failure {
            let message = format!("line {}: {message}", self.line);
            return (500, json!(ErrorBody::failed(message, "generation_failed")));
        }
        let about = About {
            endpoint: self.endpoint.unwrap_or(Endpoint::ChatCompletions),
            id: &self.id,
            created: 0,
            model,
            prompt_tokens: self.prompt_tokens,
            wants_logprobs: self.wants_logprobs,
        };
        (200, answer(&about, choices, tokenizer).into_body())
    }
}
