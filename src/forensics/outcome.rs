//! The outcome of a call: what became of the tool calls that a request asked for.
//!
//! Answers are read by replay's plain reader of calls. Where the tokenizer has a tag as a special token, that token alone
//! opens and closes; elsewhere its letters do, unless they stand in a value that could be read. Text around calls is not
//! judged.

mod expected;
mod recorded;

pub use self::expected::{ExpectedCalls, ExpectedCallsError};
pub use self::recorded::{ChoiceOutcome, outcome_of_choice, outcomes};

use serde_json::Value;

use super::repetition::Call;
use crate::model::Tokenizer;
use crate::replay::CallFormat;
use crate::replay::tools::{CALL, Callable, END_CALL, Follows, Judge, Opened, Spelled, Unread, may_call, opened};
use crate::tools::{ToolChoice, ToolUse};

/// What became of the calls of an answer. Of several, the least holds: this is their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallOutcome {
    /// A call was opened, and the next one was opened or the answer ended before its closing tag.
    NeverClosed,
    /// A closing tag came with no call open.
    ClosedTwice,
    /// The letters of a tag stand inside of a value, and are not the tag's special token.
    TagSpelled,
    /// A call that has not the form of one, or calls no tool that may be called, or not as its schema asks; or no call at
    /// all where one had to come.
    AgainstSchema,
    /// Other calls than the expected ones.
    OtherArguments,
    /// Every call is as it should be.
    Whole,
}

impl CallOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::NeverClosed,
        Self::ClosedTwice,
        Self::TagSpelled,
        Self::AgainstSchema,
        Self::OtherArguments,
        Self::Whole,
    ];

    /// Its word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverClosed => "never-closed",
            Self::ClosedTwice => "closed-twice",
            Self::TagSpelled => "tag-spelled",
            Self::AgainstSchema => "against-schema",
            Self::OtherArguments => "other-arguments",
            Self::Whole => "whole",
        }
    }

    /// Whether a call is broken.
    pub fn is_broken(self) -> bool {
        self != Self::Whole
    }
}

/// Why an answer has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOutcome {
    /// It has no call that could be judged, and needs none.
    #[error("there is no call to judge")]
    NothingToJudge,
    /// It may have one, and what became of it is not known.
    #[error("it is not known what became of its calls")]
    NotKnown,
}

/// What an answer is held against.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The tools that may be called.
    pub tools: &'a ToolUse,
    /// How calls are written.
    pub format: CallFormat,
    /// The calls that should come, in whatever order; `None` where that is not known.
    pub expected: Option<&'a [Call]>,
}

impl Asked<'_> {
    /// The outcome of an answer: the tokens of a choice that ended, without the token that ended it.
    ///
    /// # Errors
    /// [`NoOutcome::NothingToJudge`] where nothing is called because nothing has to be. [`NoOutcome::NotKnown`] where the schema
    /// has keywords that are not judged (and no call is expected that this one could equal), or there is JSON past a limit of
    /// the reader.
    pub fn outcome(&self, answer: &[u32], tokenizer: &Tokenizer) -> Result<CallOutcome, NoOutcome> {
        let spelled = Spelled::new(answer, tokenizer);
        let callable = Callable::new(&self.tools.tools);
        let opened = opened(&spelled, self.format, &callable);
        match self.tools.choice {
            ToolChoice::None => return Err(NoOutcome::NothingToJudge),
            ToolChoice::Auto if opened.is_empty() => return Err(NoOutcome::NothingToJudge),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => {}
        }
        let marks = marks(&spelled, &opened);
        let by_marks = by_marks(&spelled, &opened, &marks);
        let by_letters = spells_a_tag(&spelled, &opened, &marks, self.format).then_some(CallOutcome::TagSpelled);
        by_marks.or(by_letters).or_else(|| self.by_content(opened)).ok_or(NoOutcome::NotKnown)
    }

    /// The outcome by what is called alone; `None` where it is not known.
    fn by_content(&self, opened: Vec<Opened<'_>>) -> Option<CallOutcome> {
        let mut is_against = opened.is_empty();
        let (mut is_read, mut is_judged) = (true, true);
        let mut judge = Judge::new();
        let mut calls = Vec::new();
        for call in opened {
            match call.follows {
                Follows::Call(tool, arguments) if may_call(self.tools, &tool.name) => {
                    let arguments = Value::Object(arguments);
                    match judge.fits(&arguments, &tool.parameters) {
                        Ok(not_judged) => is_judged &= not_judged.is_empty(),
                        Err(_) => is_against = true,
                    }
                    calls.push((tool.name.as_str(), arguments));
                }
                Follows::Unformed(Unread::Beyond) => is_read = false,
                Follows::Call(..) | Follows::NoCall | Follows::Unformed(Unread::Cut | Unread::Other) => {
                    is_against = true;
                }
            }
        }
        if is_against {
            return Some(CallOutcome::AgainstSchema);
        }
        let is_expected = self.expected.map(|expected| are_the_same(&calls, expected, &mut judge));
        match is_expected {
            _ if !is_read || judge.is_spent() => None,
            Some(false) => Some(CallOutcome::OtherArguments),
            Some(true) => Some(CallOutcome::Whole),
            None => is_judged.then_some(CallOutcome::Whole),
        }
    }
}

/// Whether these are the expected calls, in whatever order.
fn are_the_same(calls: &[(&str, Value)], expected: &[Call], judge: &mut Judge) -> bool {
    let mut left: Vec<&Call> = expected.iter().collect();
    let all_found = calls.iter().all(|(name, arguments)| {
        let is_same = |call: &&Call| call.name == *name && judge.same(&call.arguments, arguments);
        let found = left.iter().position(is_same);
        found.map(|index| left.swap_remove(index)).is_some()
    });
    all_found && left.is_empty()
}

/// Where a call is opened or closed.
struct Mark {
    place: usize,
    opens: bool,
}

/// The tags of calls, in order. Letters inside of a call that could be read are none: they stand in its values.
fn marks(spelled: &Spelled<'_>, opened: &[Opened<'_>]) -> Vec<Mark> {
    let is_inside = |place: usize| {
        let before = opened.partition_point(|call| call.inside.start <= place);
        before.checked_sub(1).and_then(|index| opened.get(index)).is_some_and(|call| call.inside.contains(&place))
    };
    let mut marks = Vec::new();
    for (tag, opens) in [(CALL, true), (END_CALL, false)] {
        let is_token = spelled.is_special(tag);
        let places = spelled.places(tag).into_iter().filter(|place| is_token || !is_inside(*place));
        marks.extend(places.map(|place| Mark { place, opens }));
    }
    marks.sort_by_key(|mark| mark.place);
    marks
}

/// The outcome of calls that are not closed, or closed once more than they are opened.
fn by_marks(spelled: &Spelled<'_>, opened: &[Opened<'_>], marks: &[Mark]) -> Option<CallOutcome> {
    // What looks like a tag in JSON that the answer ends in is a part of that JSON, where only letters tell.
    let is_cut = |call: &Opened<'_>| matches!(call.follows, Follows::Unformed(Unread::Cut));
    let mut is_never_closed = !spelled.is_special(END_CALL) && opened.iter().any(is_cut);
    let (mut is_open, mut is_closed_twice) = (false, false);
    for mark in marks {
        is_never_closed |= is_open && mark.opens;
        is_closed_twice |= !is_open && !mark.opens;
        is_open = mark.opens;
    }
    match (is_never_closed || is_open, is_closed_twice) {
        (true, _) => Some(CallOutcome::NeverClosed),
        (false, true) => Some(CallOutcome::ClosedTwice),
        (false, false) => None,
    }
}

/// Whether a value has the letters of a tag.
fn spells_a_tag(spelled: &Spelled<'_>, opened: &[Opened<'_>], marks: &[Mark], format: CallFormat) -> bool {
    opened.iter().flat_map(|call| &call.values).any(|value| {
        // A value whose end is not known goes no further than its call.
        let next = marks.get(marks.partition_point(|mark| mark.place < value.start));
        let end = next.map_or(value.end, |mark| mark.place.min(value.end));
        spelled.has_letters_of(format.tags(), value.start..end)
    })
}

#[cfg(test)]
mod tests;
