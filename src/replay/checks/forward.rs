//! The whole model gives the recorded row from the recorded tokens.

use super::logits;
use super::sketches::{self, Passage};
use crate::arith::{ActivationRow, RowStatistics, scalar};
use crate::replay::context::{Row, Sequence};
use crate::replay::forward::{FeedError, Memory, PlainModel};
use crate::replay::recover::Recovered;
use crate::replay::verdict::{Skip, Verdict};

/// The plain re-execution of one sequence, row after row.
pub(in crate::replay) struct Execution<'a> {
    plain: &'a PlainModel<'a>,
    sequence: &'a Sequence<'a>,
    memory: Memory,
    /// What the row that was run last passed through; empty if no row was sketched.
    passage: Vec<Passage>,
}

/// Why a row cannot be run.
enum Stuck {
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
pub(in crate::replay) fn run_prompt(plain: &PlainModel<'_>, prompt: &[u32]) -> Result<Memory, FeedError> {
    let mut memory = plain.start();
    let (_, before) = prompt.split_last().unwrap_or((&0, &[]));
    for &token in before {
        plain.feed(&mut memory, token)?;
    }
    Ok(memory)
}

impl<'a> Execution<'a> {
    /// Goes on from the prompt.
    pub(in crate::replay) fn new(plain: &'a PlainModel<'a>, sequence: &'a Sequence<'a>, prompt: Memory) -> Self {
        Self { plain, sequence, memory: prompt, passage: Vec::new() }
    }

    /// Runs the token that `row` was computed after, and compares what comes out.
    ///
    /// Rows come in order; a draft's row follows the row before it, and [`Execution::commit`] takes back what was not
    /// committed.
    pub(in crate::replay) fn check(&mut self, row: &Row<'_>, recovered: &Recovered) -> Verdict {
        let mut verdict = Verdict::new();
        let sketched = sketches::of(row);
        let hidden = match self.run(row, sketched.is_some()) {
            Ok(hidden) => hidden,
            Err(Stuck::NoInput(skip)) => return Verdict::skipped(skip),
            Err(Stuck::Refused(error)) => {
                verdict.mismatch("input token", "one that the model can read".to_owned(), error.to_string());
                return verdict;
            }
        };
        verdict.equal("position", self.memory.length() - 1, row.record.position);
        if let Some(sketched) = sketched {
            sketches::compare(&mut verdict, row, &self.passage, sketched);
        }
        let head_input = self.plain.head_input(&hidden);
        self.compare(&mut verdict, row, recovered, &head_input);
        verdict
    }

    /// Forgets the drafts that were not committed: all that is left is fed but the last committed token.
    pub(in crate::replay) fn commit(&mut self, output: &[u32]) {
        let committed = self.sequence.admission.prompt_tokens.len() + output.len();
        self.memory.truncate(committed.saturating_sub(1) as u32);
    }

    /// Feeds the draft that the row was computed after, or else what was committed and is not fed yet: the last token,
    /// and more if rows are missing.
    fn run(&mut self, row: &Row<'_>, is_sketched: bool) -> Result<Vec<f32>, Stuck> {
        if let Some(before) = row.index.checked_sub(1) {
            let draft = || row.step.drafts.get(before as usize).and_then(|&draft| u32::try_from(draft).ok());
            // The model may have read something in the place of a draft that is withheld.
            let read = match &row.step.input_tokens {
                Some(input) => input.get(row.index as usize).copied(),
                None => draft(),
            };
            let withheld = || Stuck::NoInput(Skip::not_recorded("what was read in a withheld draft's place"));
            return Ok(self.feed(read.ok_or_else(withheld)?, is_sketched)?);
        }
        let committed = self.sequence.admission.prompt_tokens.iter().chain(row.output);
        let mut hidden = Err(Stuck::NoInput(Skip::missing("nothing was committed that the row could follow")));
        for &token in committed.skip(self.memory.length() as usize) {
            hidden = Ok(self.feed(token, is_sketched)?);
        }
        hidden
    }

    fn feed(&mut self, token: u32, is_sketched: bool) -> Result<Vec<f32>, FeedError> {
        let Self { plain, memory, passage, .. } = self;
        passage.clear();
        if !is_sketched {
            return plain.feed(memory, token);
        }
        plain.feed_and_tell(memory, token, &mut |layer, operation, output| {
            passage.push(Passage { layer, operation, sketch: scalar::sketch(output) });
        })
    }

    fn compare(&self, verdict: &mut Verdict, row: &Row<'_>, recovered: &Recovered, head_input: &ActivationRow) {
        let recorded_input = recovered.whole().and_then(|whole| whole.head_input.as_ref());
        let same_input = recorded_input.map(|recorded| same(recorded, head_input));
        if let (Some(false), Some(recorded)) = (same_input, recorded_input) {
            let (expected, found) = difference(head_input, recorded);
            verdict.mismatch("head input", expected, found);
        }
        let computed: RowStatistics = match recovered.whole() {
            // The same input gives the same row: it need not be computed twice.
            Some(whole) if same_input == Some(true) => whole.statistics,
            _ => scalar::row_statistics(&self.plain.logits(head_input)),
        };
        match &row.record.statistics {
            Some(recorded) => logits::compare(verdict, &computed, recorded),
            None => verdict.skip(Skip::not_recorded("the row's statistics are not recorded")),
        }
    }
}

/// Bit equality, any NaN equal to any other.
fn same(a: &ActivationRow, b: &ActivationRow) -> bool {
    match (a, b) {
        (ActivationRow::Quantized(a), ActivationRow::Quantized(b)) => {
            a.values == b.values && same_floats(&a.scales, &b.scales)
        }
        (ActivationRow::Float(a), ActivationRow::Float(b)) => same_floats(a, b),
        _ => false,
    }
}

/// Likewise, of values.
pub(super) fn same_floats(x: &[f32], y: &[f32]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_float(*x, *y))
}

fn same_float(x: f32, y: f32) -> bool {
    x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
}

/// The first element in which two head inputs differ.
fn difference(expected: &ActivationRow, found: &ActivationRow) -> (String, String) {
    fn first<T: Copy + std::fmt::Display>(
        name: &str,
        a: &[T],
        b: &[T],
        same: impl Fn(T, T) -> bool,
    ) -> Option<(String, String)> {
        let pairs = || a.iter().copied().zip(b.iter().copied());
        let differing = pairs().filter(|&(a, b)| !same(a, b)).count();
        let (index, (a, b)) = pairs().enumerate().find(|&(_, (a, b))| !same(a, b))?;
        Some((format!("{name} {index} is {a}"), format!("{b}, and {} more differ", differing - 1)))
    }
    let differs = match (expected, found) {
        (ActivationRow::Quantized(a), ActivationRow::Quantized(b)) => {
            first("value", &a.values, &b.values, |a, b| a == b)
                .or_else(|| first("scale", &a.scales, &b.scales, same_float))
        }
        (ActivationRow::Float(a), ActivationRow::Float(b)) => first("value", a, b, same_float),
        _ => None,
    };
    differs.unwrap_or_else(|| (format!("{} elements", expected.len()), format!("{} elements", found.len())))
}
