//! The vocabulary that the engine, the captures and replay share: one id type per kind of id.
//!
//! Nothing here computes anything, and nothing here is serialized: wire forms live at the edge, in
//! [`crate::capture::records`] and [`crate::params::wire`].

use std::fmt;

/// Declares an id: a transparent number that cannot be confused with another kind of id.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

id_type! {
    /// An entry of the model's vocabulary.
    TokenId(u32)
}
id_type! {
    /// A request, numbered from 0 in the order of admission to one engine (and so within one capture).
    RequestId(u64)
}
id_type! {
    /// One of the `n` choices of a request; each choice is a sequence of its own.
    ChoiceIndex(u32)
}
id_type! {
    /// One iteration of the engine loop, numbered from 0.
    StepId(u64)
}
id_type! {
    /// An absolute position in a sequence: 0 is the first prompt token.
    Position(u32)
}
id_type! {
    /// A row of recurrent state that one running sequence owns.
    StateSlot(u32)
}
id_type! {
    /// A page of the key-value cache: [`crate::arith::ATTENTION_CHUNK`] consecutive positions of one sequence.
    PageId(u32)
}

impl TokenId {
    /// The id as an index into a logits row.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Position {
    /// The position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One choice of one request: what a step schedules, and what a step record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId {
    /// The request.
    pub request: RequestId,
    /// Which of its choices.
    pub choice: ChoiceIndex,
}

impl fmt::Display for SequenceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.request, self.choice)
    }
}

/// Why a sequence ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-generation token of the model was emitted.
    EndToken(TokenId),
    /// One of the request's `stop_token_ids` was emitted.
    StopToken(TokenId),
    /// One of the request's `stop` strings appeared in the text.
    StopString(String),
    /// `max_tokens` were emitted.
    MaxTokens,
    /// The model's context is full.
    ContextFull,
    /// The grammar is complete: an end token came, which the request has as an ordinary one (`ignore_eos`).
    GrammarEnd,
    /// The request failed; the text says how.
    Failed(String),
    /// Nobody waits for it any more.
    Cancelled,
}

impl FinishReason {
    /// The `finish_reason` of the OpenAI protocol; `None` for a failure, which is an error object instead, and
    /// where nobody is told.
    pub fn protocol_name(&self) -> Option<&'static str> {
        match self {
            Self::EndToken(_) | Self::StopToken(_) | Self::StopString(_) | Self::GrammarEnd => Some("stop"),
            Self::MaxTokens | Self::ContextFull => Some("length"),
            Self::Failed(_) | Self::Cancelled => None,
        }
    }
}
