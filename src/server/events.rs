//! The body of a streamed answer: server-sent events, made as the engine goes on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc::UnboundedReceiver;

use super::choice::ChoiceStream;
use super::error::ApiError;
use super::worker::Update;
use crate::params::response::{Pieces, Usage};
use crate::types::FinishReason;

/// The events of one answer. Dropping them lets the engine know that nobody listens.
pub(super) struct Events {
    updates: UnboundedReceiver<Update>,
    pieces: Pieces,
    choices: Vec<ChoiceStream>,
    prompt_tokens: u32,
    emitted_tokens: u32,
    unfinished: usize,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl Events {
    /// The events of an answer whose request the engine has taken in.
    pub fn new(
        updates: UnboundedReceiver<Update>,
        pieces: Pieces,
        choices: Vec<ChoiceStream>,
        prompt_tokens: u32,
    ) -> Self {
        let begin = (0..choices.len()).filter_map(|index| pieces.begin(index));
        let ready = begin.map(|data| event(&data)).collect();
        let unfinished = choices.len();
        Self { updates, pieces, choices, prompt_tokens, emitted_tokens: 0, unfinished, ready, is_over: false }
    }

    fn take(&mut self, update: Update) {
        let (index, piece) = match update {
            Update::Admitted => return,
            Update::Refused(reason) => return self.fail(&ApiError::refused(reason.to_string(), None)),
            Update::Piece(step) => {
                let index = step.choice as usize;
                match self.choices.get_mut(index) {
                    Some(choice) => (index, choice.push(step)),
                    None => return,
                }
            }
            Update::Finished(choice) => {
                if let FinishReason::Failed(message) = &choice.reason {
                    return self.fail(&ApiError::failed(message));
                }
                let index = choice.id.choice.0 as usize;
                self.emitted_tokens += choice.tokens.len() as u32;
                self.unfinished = self.unfinished.saturating_sub(1);
                match self.choices.get_mut(index) {
                    Some(stream) => (index, stream.finish(&choice)),
                    None => return,
                }
            }
        };
        self.ready.extend(self.pieces.piece(index, piece).iter().map(|data| event(data)));
        if self.unfinished == 0 {
            let usage = self.pieces.usage(Usage::new(self.prompt_tokens, self.emitted_tokens));
            self.ready.extend(usage.map(|data| event(&data)));
            self.end();
        }
    }

    fn fail(&mut self, error: &ApiError) {
        let body = serde_json::to_string(&error.body()).unwrap_or_default();
        self.ready.push_back(event(&body));
        self.end();
    }

    fn end(&mut self) {
        self.ready.push_back(event("[DONE]"));
        self.is_over = true;
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(event))));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match ready!(self.updates.poll_recv(context)) {
                Some(update) => self.take(update),
                None => self.fail(&ApiError::stopping()),
            }
        }
    }
}

/// JSON text and `[DONE]` have no line breaks, so that an event is one line.
fn event(data: &str) -> Bytes {
    format!("data: {data}\n\n").into()
}
