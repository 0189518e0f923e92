//! The plain re-execution of one sequence from its recorded tokens, row after row.

use super::forward::{FeedError, Listener, Memory, PlainModel};
use super::verdict::Skip;
use crate::capture::records::StepRecord;

/// A sequence that is being run again, up to some row.
#[derive(Clone)]
pub(crate) struct Execution<'a> {
    plain: &'a PlainModel<'a>,
    prompt: &'a [u32],
    memory: Memory,
}

/// Why a row cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// It is not known what it was computed after.
    NoInput(Skip),
    /// The model cannot read it.
    Refused(FeedError),
}

impl From<FeedError> for Stuck {
    fn from(error: FeedError) -> Self {
        Self::Refused(error)
    }
}

/// The prompt without its last token, run once for all choices of a request.
///
/// # Errors
/// If the prompt has a token that the model does not, or is longer than its context.
pub(crate) fn run_prompt(plain: &PlainModel<'_>, prompt: &[u32]) -> Result<Memory, FeedError> {
    let mut memory = plain.start();
    let (_, before) = prompt.split_last().unwrap_or((&0, &[]));
    for &token in before {
        plain.feed(&mut memory, token)?;
    }
    Ok(memory)
}

impl<'a> Execution<'a> {
    /// Goes on from a prompt that [`run_prompt`] ran.
    pub(crate) fn new(plain: &'a PlainModel<'a>, prompt: &'a [u32], memory: Memory) -> Self {
        Self { plain, prompt, memory }
    }

    /// The model that is run.
    pub(crate) fn plain(&self) -> &'a PlainModel<'a> {
        self.plain
    }

    /// What was fed, as the model keeps it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Position of the token that was fed last.
    pub(crate) fn position(&self) -> u32 {
        self.memory.length().saturating_sub(1)
    }

    /// Feeds what a row of a step was computed after, and returns the output of the last layer. That is the draft before
    /// the row; for the first row, what was committed and is not fed yet: the last token, and more if rows are missing.
    /// `output` are the tokens emitted before the step, and for rows after the first may be more; `tell` is told of the
    /// last token that is fed.
    ///
    /// Rows come in order, and [`Execution::commit`] takes back what was not committed.
    ///
    /// # Errors
    /// If it is not known what was fed, or the model cannot read it.
    pub(crate) fn run(
        &mut self,
        step: &StepRecord,
        row: u32,
        output: &[u32],
        tell: Option<&mut Listener<'_>>,
    ) -> Result<Vec<f32>, Stuck> {
        let token = match row.checked_sub(1) {
            Some(before) => read_after(step, row, before)?,
            None => self.catch_up(output)?,
        };
        Ok(match tell {
            Some(tell) => self.plain.feed_and_tell(&mut self.memory, token, tell),
            None => self.plain.feed(&mut self.memory, token),
        }?)
    }

    /// Feeds all that was committed and is not fed yet but the last token, which is returned.
    fn catch_up(&mut self, output: &[u32]) -> Result<u32, Stuck> {
        let committed = self.prompt.iter().chain(output).copied();
        let mut rest = committed.skip(self.memory.length() as usize);
        let none = || Stuck::NoInput(Skip::missing("nothing was committed that the row could follow"));
        let mut token = rest.next().ok_or_else(none)?;
        for next in rest {
            self.plain.feed(&mut self.memory, token)?;
            token = next;
        }
        Ok(token)
    }

    /// Forgets the drafts that were not committed: all that is left is fed but the last committed token. `output` are all
    /// tokens emitted so far.
    pub(crate) fn commit(&mut self, output: &[u32]) {
        let committed = self.prompt.len() + output.len();
        self.memory.truncate(committed.saturating_sub(1) as u32);
    }
}

/// What the model read in a draft's place.
fn read_after(step: &StepRecord, row: u32, before: u32) -> Result<u32, Stuck> {
    let draft = || step.drafts.get(before as usize).and_then(|&draft| u32::try_from(draft).ok());
    // The model may have read something in the place of a draft that is withheld.
    let read = match &step.input_tokens {
        Some(input) => input.get(row as usize).copied(),
        None => draft(),
    };
    read.ok_or_else(|| Stuck::NoInput(Skip::not_recorded("what was read in a withheld draft's place")))
}
