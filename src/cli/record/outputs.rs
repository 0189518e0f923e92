//! The answers: OpenAI Batch output lines, without a clock or a random id, so that equal runs give equal bytes.

use serde_json::{Value, json};

use crate::engine::logprobs::{Logprob, TokenLogprobs};
use crate::engine::{FinishedChoice, Submission};
use crate::model::Tokenizer;
use crate::params::Endpoint;
use crate::params::response::{Answer, Choice, ErrorBody, ErrorObject, TextLogprob, TokenLogprob, Usage};
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
        let endpoint = self.endpoint.unwrap_or(Endpoint::ChatCompletions);
        let prefix = match endpoint {
            Endpoint::ChatCompletions => "chatcmpl",
            Endpoint::Completions => "cmpl",
        };
        let emitted = choices.iter().map(|choice| choice.tokens.len() as u32).sum();
        let answer = Answer {
            endpoint,
            id: format!("{prefix}-{}", self.id),
            created: 0,
            model: model.to_owned(),
            usage: Usage::new(self.prompt_tokens, emitted),
            choices: choices.into_iter().map(|choice| self.choice(choice, tokenizer)).collect(),
        };
        (200, answer.into_body())
    }

    fn choice(&self, choice: FinishedChoice, tokenizer: &Tokenizer) -> Choice {
        let logprobs = self.wants_logprobs.then(|| {
            let told = told_tokens(&choice, tokenizer);
            choice.logprobs[..told.min(choice.logprobs.len())]
                .iter()
                .map(|entry| token_logprob(entry, tokenizer))
                .collect()
        });
        let parsed = choice.calls.unwrap_or_default();
        let text = if parsed.calls.is_empty() { choice.text } else { parsed.content };
        Choice { text, calls: parsed.calls, call_problems: parsed.problems, finish: choice.reason, logprobs }
    }
}

/// How many of a choice's tokens are part of its text: not the end or stop token that ended it, nor those that lie wholly
/// in the stop string.
fn told_tokens(choice: &FinishedChoice, tokenizer: &Tokenizer) -> usize {
    let count = choice.tokens.len();
    match choice.reason {
        FinishReason::EndToken(_) | FinishReason::StopToken(_) => count.saturating_sub(1),
        FinishReason::StopString(_) => {
            let mut end = 0;
            let begins_in_text = |token: &&crate::types::TokenId| {
                let begins = end;
                end += tokenizer.token_bytes(**token).len();
                begins < choice.text.len()
            };
            choice.tokens.iter().take_while(begins_in_text).count()
        }
        _ => count,
    }
}

fn token_logprob(entry: &TokenLogprobs, tokenizer: &Tokenizer) -> TokenLogprob {
    let text = |logprob: &Logprob| TextLogprob {
        bytes: tokenizer.token_bytes(logprob.token).to_vec(),
        logprob: logprob.logprob,
    };
    TokenLogprob { chosen: text(&entry.chosen), alternatives: entry.alternatives.iter().map(text).collect() }
}
