//! Labels: what makes a step a failing one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use super::expression::{Expression, ExpressionError};
use crate::capture::CaptureReader;
use crate::capture::conditions::{Conditions, is_forced, known_rows};
use crate::capture::records::{MaskRecord, RowRecord, StepRecord};
use crate::forensics::localize::Agreement;
use crate::forensics::outcome::{CallOutcome, NoOutcome};
use crate::forensics::signs::allows;
use crate::replay::CheckName;

/// What makes a step a failing one.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// A token that had to come was not the best of its row.
    ForcedMisrank,
    /// The mask allowed a closing tag, the drafter proposed it, and another token was emitted.
    MissedClose,
    /// The mask took away the best token of a row that was judged.
    MaskRemovedTop1,
    /// A row with NaN or +infinity, or with nothing above -infinity.
    InvalidRow,
    /// Replay finds fault with it, in one check or in any.
    Finding(Option<CheckName>),
    /// The answer as a whole has a broken call.
    BrokenCall,
    /// It differs from a clean execution.
    Diverged,
    /// An expression over columns is true.
    Expression(Expression),
}

/// What a label says of a unit. Of several parts of one unit, the greatest holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// There is nothing to judge.
    NoSite,
    /// It does not have what the label names.
    Passing,
    /// It is not known.
    Unknown,
    /// It has.
    Failing,
}

impl Judgement {
    /// What an outcome says of the answer or the request that it is of, where a broken call is what is looked for.
    pub fn of_outcome(outcome: Result<CallOutcome, NoOutcome>) -> Self {
        match outcome {
            Ok(outcome) => fails(outcome.is_broken()),
            Err(NoOutcome::NothingToJudge) => Self::NoSite,
            Err(NoOutcome::NotKnown) => Self::Unknown,
        }
    }
}

/// Why a text is no label.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// It names a check that there is not.
    #[error("--label finding:CHECK: {0}")]
    Check(#[from] crate::replay::UnknownCheck),
    /// It is none of the names, and no expression either.
    #[error("--label `{text}` is none of {} and no expression over columns: {source}", Label::NAMES.join(", "))]
    Expression {
        /// The text.
        text: String,
        /// What is wrong with it as an expression.
        source: ExpressionError,
    },
}

impl Label {
    /// The names, beside expressions.
    pub const NAMES: [&str; 8] = [
        "forced-misrank",
        "missed-close",
        "mask-removed-top1",
        "invalid-row",
        "finding",
        "finding:CHECK",
        "broken-call",
        "diverged",
    ];

    /// The columns of steps that it is made of: what they say would only say it again.
    pub fn conditions(&self) -> Vec<String> {
        match self {
            Self::Expression(expression) => expression.conditions(),
            _ => Vec::new(),
        }
    }

    /// What it says of a failing unit.
    pub fn meaning(&self) -> String {
        match self {
            Self::ForcedMisrank => "a token that had to come was not the best of its row".to_owned(),
            Self::MissedClose => {
                "a closing tag was drafted and allowed, and another token was emitted in its place".to_owned()
            }
            Self::MaskRemovedTop1 => "the mask took away the best token of a row that gave a token".to_owned(),
            Self::InvalidRow => "a row has NaN or +infinity, or nothing above -infinity".to_owned(),
            Self::Finding(Some(check)) => format!("replay's check `{check}` has a finding"),
            Self::Finding(None) => "replay has a finding".to_owned(),
            Self::BrokenCall => "the answer has a broken call".to_owned(),
            Self::Diverged => "it differs from a clean execution".to_owned(),
            Self::Expression(expression) => format!("{expression}"),
        }
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        Ok(match text {
            "forced-misrank" => Self::ForcedMisrank,
            "missed-close" => Self::MissedClose,
            "mask-removed-top1" => Self::MaskRemovedTop1,
            "invalid-row" => Self::InvalidRow,
            "finding" => Self::Finding(None),
            "broken-call" => Self::BrokenCall,
            "diverged" => Self::Diverged,
            other => match other.strip_prefix("finding:") {
                Some(check) => Self::Finding(Some(check.parse()?)),
                None => match other.parse() {
                    Ok(expression) => Self::Expression(expression),
                    Err(source) => return Err(LabelError::Expression { text: other.to_owned(), source }),
                },
            },
        })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForcedMisrank => formatter.write_str("forced-misrank"),
            Self::MissedClose => formatter.write_str("missed-close"),
            Self::MaskRemovedTop1 => formatter.write_str("mask-removed-top1"),
            Self::InvalidRow => formatter.write_str("invalid-row"),
            Self::Finding(Some(check)) => write!(formatter, "finding:{check}"),
            Self::Finding(None) => formatter.write_str("finding"),
            Self::BrokenCall => formatter.write_str("broken-call"),
            Self::Diverged => formatter.write_str("diverged"),
            Self::Expression(expression) => expression.fmt(formatter),
        }
    }
}

/// A step by its request, choice and number.
pub type StepKey = (u64, u32, u64);

/// Masks that a judge keeps at hand.
const MASKS_KEPT: usize = 1024;

/// Judges the steps of a capture by a label, sequence by sequence.
pub struct Judge<'a> {
    label: &'a Label,
    reader: &'a CaptureReader,
    /// Tokens that are forced and are not looked at.
    left_out: Vec<u32>,
    /// Tokens that close something.
    pub closing: Vec<u32>,
    /// Steps that replay finds fault with.
    pub found: HashSet<StepKey>,
    /// What a clean execution says of steps, as far as they could be run.
    pub diverged: HashMap<StepKey, Agreement>,
    masks: HashMap<[u8; 32], Option<Rc<MaskRecord>>>,
    window: Conditions,
}

impl<'a> Judge<'a> {
    /// A judge of a capture's steps; forced tokens of `left_out` are not looked at.
    pub fn new(label: &'a Label, reader: &'a CaptureReader, left_out: Vec<u32>) -> Self {
        let window = Conditions::of_format(reader.header().format_version);
        let (closing, found, diverged, masks) = (Vec::new(), HashSet::new(), HashMap::new(), HashMap::new());
        Self { label, reader, left_out, closing, found, diverged, masks, window }
    }

    /// The next step is the first of a sequence, or the one before it could not be read.
    pub fn begin(&mut self) {
        self.window.take();
    }

    /// Judges a step.
    pub fn judge(&mut self, step: &StepRecord) -> Judgement {
        match self.label {
            Label::ForcedMisrank => over_rows(step, |_, row| self.forced(step, row)),
            Label::InvalidRow => over_rows(step, |_, row| {
                row.statistics.map_or(Judgement::Unknown, |statistics| fails(statistics.is_invalid()))
            }),
            Label::MaskRemovedTop1 => over_rows(step, |index, row| self.removed(step, index, row)),
            Label::MissedClose => self.missed(step),
            Label::Finding(_) => fails(self.found.contains(&(step.request, step.choice, step.step))),
            Label::Expression(expression) => {
                self.window.push(step);
                if self.window.len() > 2 {
                    self.window.forget(1);
                }
                expression.judge(step, &self.window)
            }
            Label::Diverged => match self.diverged.get(&(step.request, step.choice, step.step)) {
                Some(Agreement::NoRows) => Judgement::NoSite,
                Some(Agreement::Same) => Judgement::Passing,
                Some(Agreement::Differs) => Judgement::Failing,
                Some(Agreement::NotKnown) | None => Judgement::Unknown,
            },
            Label::BrokenCall => Judgement::Unknown,
        }
    }

    fn forced(&self, step: &StepRecord, row: &RowRecord) -> Judgement {
        // Version 1 has no word of forced tokens.
        let can_tell = self.reader.header().format_version > 1 || row.scheduler_mask.is_none();
        match row.forced {
            Some(forced) if self.left_out.contains(&forced.token) => Judgement::NoSite,
            Some(forced) => forced.rank.map_or(Judgement::Unknown, |rank| fails(rank > 0)),
            None if can_tell && is_forced(step, row).is_some() => Judgement::NoSite,
            None => Judgement::Unknown,
        }
    }

    fn removed(&mut self, step: &StepRecord, index: usize, row: &RowRecord) -> Judgement {
        if index >= step.emitted.len() {
            return Judgement::NoSite;
        }
        let Some(hash) = row.applied_mask else {
            let had_none = row.scheduler_mask.is_none() && row.mask_population.is_none();
            return if had_none { Judgement::NoSite } else { Judgement::Unknown };
        };
        let Some(statistics) = row.statistics else { return Judgement::Unknown };
        // A row without a best token is none that a mask could take it from.
        let Some(best) = statistics.argmax else { return Judgement::NoSite };
        self.mask(&hash).map_or(Judgement::Unknown, |mask| fails(!allows(&mask, best)))
    }

    fn missed(&mut self, step: &StepRecord) -> Judgement {
        let mut judgement = Judgement::NoSite;
        for (index, (draft, emitted)) in step.drafts.iter().zip(&step.emitted).enumerate() {
            let Some(draft) = u32::try_from(*draft).ok().filter(|draft| self.closing.contains(draft)) else { continue };
            let of_row = match known_rows(step).and_then(|rows| rows.get(index)) {
                None => Judgement::Unknown,
                Some(row) => match row.applied_mask.or(row.scheduler_mask) {
                    None => Judgement::NoSite,
                    Some(hash) => match self.mask(&hash) {
                        None => Judgement::Unknown,
                        Some(mask) if allows(&mask, draft) => fails(*emitted != draft),
                        Some(_) => Judgement::NoSite,
                    },
                },
            };
            judgement = judgement.max(of_row);
        }
        judgement
    }

    fn mask(&mut self, hash: &[u8; 32]) -> Option<Rc<MaskRecord>> {
        if let Some(mask) = self.masks.get(hash) {
            return mask.clone();
        }
        if self.masks.len() >= MASKS_KEPT {
            self.masks.clear();
        }
        let mask = self.reader.mask(hash).ok().flatten().map(Rc::new);
        self.masks.insert(*hash, mask.clone());
        mask
    }
}

fn fails(fails: bool) -> Judgement {
    if fails { Judgement::Failing } else { Judgement::Passing }
}

/// The judgement of a step by its rows.
fn over_rows(step: &StepRecord, mut judge: impl FnMut(usize, &RowRecord) -> Judgement) -> Judgement {
    let Some(rows) = known_rows(step) else { return Judgement::Unknown };
    rows.iter().enumerate().map(|(index, row)| judge(index, row)).max().unwrap_or(Judgement::NoSite)
}
