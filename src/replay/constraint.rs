//! The grammar of a sequence, straight: what it allowed in every row, derived from the tokens alone.
//!
//! One matcher consumes what was emitted and is never rolled back; it gives the rows that were judged. A second one, which
//! stands at the same place, goes astray along rejected drafts and comes back. An engine has one matcher for both, so a
//! fault of its fill or its rollback shows in the rows that follow.

use super::verdict::Skip;
use crate::capture::records::{ConstraintRecord, MaskRecord, StepRecord};
use crate::grammar::{Constraint, Grammar, GrammarError, GrammarFactory, MaskRow, Matcher};
use crate::types::TokenId;

/// Where a sequence stands in its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Tokens that the grammar has consumed.
    pub(super) consumed: u64,
    /// Whether an end token was among them.
    pub(super) terminated: bool,
    /// Whether it has not begun yet.
    pub(super) reasoning: bool,
}

/// What the grammar allows in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Hash of the mask.
    pub(super) hash: [u8; 32],
    /// The token that has to come, if one has to.
    pub(super) only: Option<u32>,
}

/// What the grammar says of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepTrace {
    /// Before the step.
    pub(super) before: Position,
    /// After it.
    pub(super) after: Position,
    /// Row by row; `None` where nothing is constrained.
    pub(super) rows: Vec<Option<Allowed>>,
    /// How many of the proposed drafts may come, one after the other.
    pub(super) legal: usize,
    /// The tokens that have to come before anything else can, as many as were asked for.
    pub(super) forced: Vec<u32>,
    /// The index of an emitted token that may not come. No step after it can be followed.
    pub(super) refused: Option<usize>,
}

/// What the grammar says of a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// Step by step, as far as the grammar allows what was emitted.
    pub(super) steps: Vec<StepTrace>,
    /// How many tokens were emitted when an end token completed the grammar.
    pub(super) ended_after: Option<usize>,
    /// Why no further step could be followed.
    lost: Option<Skip>,
}

impl Trace {
    /// Why a step past [`Trace::steps`] cannot be checked.
    pub(super) fn lost(&self) -> Skip {
        let refused =
            || Skip::not_recorded("a token before it is none that the grammar allows, so that it cannot be followed");
        self.lost.clone().unwrap_or_else(refused)
    }
}

/// Compiles what a capture says of a request.
///
/// # Errors
/// In words, if this kind is not known here, or does not compile.
pub(super) fn compile(record: &ConstraintRecord, factory: &GrammarFactory) -> Result<Grammar, String> {
    let constraint = Constraint::from_source(&record.kind, &record.source);
    let constraint =
        constraint.ok_or_else(|| format!("a constraint `{}` with such a source is not known here", record.kind))?;
    factory.compile(&constraint).map_err(|error| format!("the recorded constraint does not compile: {error}"))
}

/// Follows the steps of a sequence, as far as the grammar allows. `forced` is how many forced tokens are wanted per step.
pub(super) fn trace(grammar: &Grammar, begins_after: Option<u32>, steps: &[StepRecord], forced: usize) -> Trace {
    let begins_after = begins_after.map(TokenId);
    let mut follower = Follower {
        straight: Walk { matcher: grammar.matcher(), begins_after },
        astray: Walk { matcher: grammar.matcher(), begins_after },
    };
    let mut trace = Trace::default();
    let mut emitted = 0;
    for step in steps {
        match follower.step(step, forced) {
            Ok(step) => trace.steps.push(step),
            Err(error) => {
                trace.lost = Some(Skip::missing(error.to_string()));
                break;
            }
        }
        let refused = trace.steps.last().and_then(|step| step.refused);
        emitted += refused.unwrap_or(step.emitted.len());
        if follower.straight.matcher.is_terminated() && trace.ended_after.is_none() {
            trace.ended_after = Some(emitted);
        }
        if refused.is_some() {
            break;
        }
    }
    trace
}

/// Both matchers of a sequence, at the same place.
struct Follower {
    straight: Walk,
    astray: Walk,
}

impl Follower {
    fn step(&mut self, step: &StepRecord, forced: usize) -> Result<StepTrace, GrammarError> {
        let Self { straight, astray } = self;
        let before = straight.position();
        let legal = astray.legal(step.drafts_raw.as_deref().unwrap_or_default())?;
        let forced = astray.forced(forced)?;
        let Straight { mut rows, refused } = straight_rows(straight, step)?;
        astray_rows(astray, step, &mut rows)?;
        for token in &step.emitted[..refused.unwrap_or(step.emitted.len())] {
            astray.take(*token)?;
        }
        Ok(StepTrace { before, after: straight.position(), rows, legal, forced, refused })
    }
}

/// The rows of a step that lie on the way that was taken, and a token on that way that may not come.
struct Straight {
    rows: Vec<Option<Allowed>>,
    refused: Option<usize>,
}

/// Takes what the step emitted; before each token, the row that gave it.
fn straight_rows(walk: &mut Walk, step: &StepRecord) -> Result<Straight, GrammarError> {
    let agreeing = step.drafts.iter().zip(&step.emitted).take_while(|(draft, token)| **draft == i64::from(**token));
    let judged = (agreeing.count() + 1).min(step.rows.len());
    let mut rows = Vec::new();
    for index in 0..judged.max(step.emitted.len()) {
        if index < judged {
            rows.push(walk.allowed()?);
        }
        match step.emitted.get(index) {
            Some(token) if !walk.take(*token)? => return Ok(Straight { rows, refused: Some(index) }),
            _ => {}
        }
    }
    Ok(Straight { rows, refused: None })
}

/// Adds the rows that lie on no way that was taken: those after a rejected draft.
///
/// A hostile step may have any number of rows: what is kept of each is small, and those that allow everything share one.
fn astray_rows(walk: &mut Walk, step: &StepRecord, rows: &mut Vec<Option<Allowed>>) -> Result<(), GrammarError> {
    let (start, begins_after) = (walk.matcher.consumed(), walk.begins_after);
    let mut everything: Option<Allowed> = None;
    let mut lost = false;
    for row in 0..step.rows.len() {
        if row > 0 && !lost {
            let draft = step.drafts.get(row - 1).and_then(|draft| u32::try_from(*draft).ok());
            lost = match draft {
                Some(draft) => !walk.take(draft)?,
                None => true,
            };
        }
        if row < rows.len() {
            continue;
        }
        // Nothing that is drawn after a draft that is lost can be emitted, so that everything may come.
        let allowed = match lost {
            false => walk.allowed()?,
            true if walk.begins_after.is_some() => None,
            true => {
                let all = || Allowed::of(&MaskRow::all(walk.matcher.vocabulary_size()));
                Some(*everything.get_or_insert_with(all))
            }
        };
        rows.push(allowed);
    }
    walk.back(start, begins_after)
}

/// A matcher with the reasoning section before it.
struct Walk {
    matcher: Matcher,
    begins_after: Option<TokenId>,
}

impl Walk {
    fn position(&self) -> Position {
        Position {
            consumed: self.matcher.consumed(),
            terminated: self.matcher.is_terminated(),
            reasoning: self.begins_after.is_some(),
        }
    }

    fn allowed(&mut self) -> Result<Option<Allowed>, GrammarError> {
        if self.begins_after.is_some() { Ok(None) } else { Ok(Some(Allowed::of(&self.matcher.mask()?))) }
    }

    /// Goes on by a token, if it may come.
    fn take(&mut self, token: u32) -> Result<bool, GrammarError> {
        let token = TokenId(token);
        if let Some(end) = self.begins_after {
            self.begins_after = Some(end).filter(|end| *end != token);
            return Ok(true);
        }
        match self.matcher.consume(token) {
            Ok(()) => Ok(true),
            Err(GrammarError::NotAllowed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn back(&mut self, consumed: u64, begins_after: Option<TokenId>) -> Result<(), GrammarError> {
        self.begins_after = begins_after;
        self.matcher.rollback((self.matcher.consumed() - consumed) as usize)
    }

    fn legal(&mut self, proposed: &[u32]) -> Result<usize, GrammarError> {
        let (start, begins_after) = (self.matcher.consumed(), self.begins_after);
        let mut legal = 0;
        while legal < proposed.len() && self.take(proposed[legal])? {
            legal += 1;
        }
        self.back(start, begins_after)?;
        Ok(legal)
    }

    fn forced(&mut self, limit: usize) -> Result<Vec<u32>, GrammarError> {
        let start = self.matcher.consumed();
        let mut forced = Vec::new();
        while forced.len() < limit && self.begins_after.is_none() && !self.matcher.is_terminated() {
            let Some(token) = self.matcher.mask()?.only() else { break };
            self.matcher.consume(token)?;
            forced.push(token.0);
        }
        self.back(start, self.begins_after)?;
        Ok(forced)
    }
}

impl Allowed {
    fn of(mask: &MaskRow) -> Self {
        let hash = MaskRecord::new(mask.vocabulary_size() as u32, mask.bytes()).hash;
        Self { hash, only: mask.only().map(|token| token.0) }
    }
}
