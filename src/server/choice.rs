//! One choice on its way to a client that takes it in pieces.

use std::sync::Arc;

use super::tap;
use crate::engine::{FinishedChoice, Tooling};
use crate::exchange::{begun_tokens, token_logprob, told_tokens};
use crate::model::Tokenizer;
use crate::params::response::{CallPiece, Piece};
use crate::tools::{self, Begun, BegunCall, Spelled, ToolCall, ToolChoice};
use crate::types::TokenId;

/// What of a choice was sent. All that is sent, put together, is the choice as it would be told as a whole; but a call that
/// turns out to be broken cannot be taken back, and is told among the problems of the last piece.
pub(super) struct ChoiceStream {
    tokenizer: Arc<Tokenizer>,
    /// `None` where the answer is text alone.
    tooling: Option<Tooling>,
    tokens: Vec<TokenId>,
    /// Text of the answer that is certain.
    text: String,
    /// Bytes of it that were sent.
    sent: usize,
    /// Calls as far as they were sent.
    calls: Vec<ToolCall>,
    logprobs: Vec<crate::engine::logprobs::TokenLogprobs>,
    /// Of these, how many were sent.
    sent_logprobs: usize,
}

impl ChoiceStream {
    /// Nothing is sent yet.
    pub fn new(tokenizer: Arc<Tokenizer>, tooling: Option<Tooling>) -> Self {
        let tooling = tooling.filter(|tooling| tooling.tools.choice != ToolChoice::None);
        Self {
            tokenizer,
            tooling,
            tokens: Vec::new(),
            text: String::new(),
            sent: 0,
            calls: Vec::new(),
            logprobs: Vec::new(),
            sent_logprobs: 0,
        }
    }

    /// What can be sent after a step.
    pub fn push(&mut self, step: tap::Piece) -> Piece {
        self.tokens.extend(step.tokens);
        self.text += &step.text;
        self.logprobs.extend(step.logprobs);
        // The end says how much of a last step is told.
        if step.is_last {
            return Piece::default();
        }
        let mut piece = Piece::default();
        match &self.tooling {
            None => piece.text = self.text_up_to(self.text.len()),
            Some(Tooling { tools, format }) => {
                let spelled = Spelled::begun(&self.tokens, *format, &self.tokenizer);
                let Begun { content, calls } = tools::begun(&spelled, *format, &tools.tools);
                let content = content.as_deref().unwrap_or_else(|| Begun::certain_text(&self.text));
                piece.text = match self.text.starts_with(content) {
                    true => self.text_up_to(content.len()),
                    false => String::new(),
                };
                for (number, BegunCall { call, .. }) in calls.into_iter().enumerate() {
                    piece.calls.extend(self.call(number, call));
                }
            }
        }
        let told = begun_tokens(&self.tokens, self.sent, &self.tokenizer);
        piece.logprobs = self.logprobs_up_to(told);
        piece
    }

    /// What is left to send at the end.
    pub fn finish(&mut self, choice: &FinishedChoice) -> Piece {
        let parsed = choice.calls.clone().unwrap_or_default();
        let mut piece = Piece::default();
        let text = if parsed.calls.is_empty() { &choice.text } else { &parsed.content };
        // A call that was sent and came to nothing stands in the text, too.
        if self.calls.is_empty() || !parsed.calls.is_empty() {
            self.text = text.clone();
            piece.text = self.text_up_to(text.len());
        }
        let mut next = 0;
        for call in parsed.calls {
            let goes_on = |sent: &ToolCall| sent.name == call.name && call.arguments.starts_with(&sent.arguments);
            let number = if self.calls.get(next).is_some_and(goes_on) { next } else { self.calls.len() };
            piece.calls.extend(self.call(number, call));
            next = number + 1;
        }
        let told = told_tokens(choice, &self.tokenizer);
        piece.logprobs = self.logprobs_up_to(told);
        piece.finish = Some((choice.reason.clone(), !self.calls.is_empty()));
        piece.call_problems = parsed.problems;
        piece
    }

    fn text_up_to(&mut self, end: usize) -> String {
        let more = self.text.get(self.sent..end).unwrap_or_default().to_owned();
        self.sent = self.sent.max(end);
        more
    }

    /// The pieces of a call that were not sent: its name first, then its arguments.
    fn call(&mut self, number: usize, call: ToolCall) -> Vec<CallPiece> {
        let mut pieces = Vec::new();
        if number >= self.calls.len() {
            let name = Some(call.name.clone());
            pieces.push(CallPiece { number, name, arguments: String::new() });
            self.calls.push(ToolCall { name: call.name.clone(), arguments: String::new() });
        }
        let Some(sent) = self.calls.get_mut(number) else { return pieces };
        if let Some(more) = call.arguments.strip_prefix(&sent.arguments).filter(|more| !more.is_empty()) {
            pieces.push(CallPiece { number, name: None, arguments: more.to_owned() });
            sent.arguments = call.arguments;
        }
        pieces
    }

    fn logprobs_up_to(&mut self, told: usize) -> Vec<crate::params::response::TokenLogprob> {
        let end = told.min(self.logprobs.len());
        let begin = self.sent_logprobs.min(end);
        self.sent_logprobs = self.sent_logprobs.max(end);
        self.logprobs[begin..end].iter().map(|entry| token_logprob(entry, &self.tokenizer)).collect()
    }
}
