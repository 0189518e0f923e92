//! Signs: what a step's own scalars say of it, without re-computing anything.
//!
//! Each sign has the shape of a fault that serving engines have had. Some are faults by themselves wherever they stand
//! ([`Sign::is_finding`]); the others are conditions that go with faults, and are legal.

use serde_json::Value;

use crate::capture::records::{
    Admission, MaskRecord, ParamSource, ResolvedField, RowRecord, SketchRecord, StepRecord, StopReason, VerdictReason,
};

/// What the engine's parameters say of a request, as far as signs ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingRules {
    /// 0 is greedy.
    pub temperature: f32,
    /// Least probability relative to the best.
    pub min_p: f32,
    /// How many top-k keeps; `None` keeps all.
    pub top_k: Option<u32>,
    /// Whether bias, penalties, withheld ends or lists of tokens move the values of rows.
    pub moves_values: bool,
    /// Whether the client gave the seed.
    pub is_seeded: bool,
}

impl SamplingRules {
    /// The rules of an admission; `None` where its parameters are not recorded.
    pub fn of(admission: &Admission) -> Option<Self> {
        let fields = admission.params.as_ref()?;
        let field = |name: &str| fields.iter().find(|field| field.name == name);
        let value = |name: &str| serde_json::from_str::<Value>(&field(name)?.value).ok();
        let number = |name: &str| value(name)?.as_f64().map(|number| number as f32);
        let is = |name: &str, neutral: f32| number(name).is_some_and(|number| number == neutral);
        let is_empty = |value: Value| value.as_object().is_some_and(serde_json::Map::is_empty);
        let is_neutral = is("repetition_penalty", 1.0)
            && is("presence_penalty", 0.0)
            && is("frequency_penalty", 0.0)
            && is("min_tokens", 0.0)
            && value("logit_bias").is_some_and(is_empty)
            && !takes_tokens_away(fields);
        Some(Self {
            temperature: number("temperature")?,
            min_p: number("min_p")?,
            top_k: value("top_k")?.as_u64().and_then(|count| u32::try_from(count).ok()),
            moves_values: !is_neutral,
            is_seeded: field("seed")?.source == ParamSource::Client,
        })
    }
}

/// Parameters of other engines that take tokens away, unless they are absent, null or empty.
pub const TOKEN_LISTS: [&str; 2] = ["bad_words", "allowed_token_ids"];

/// Whether one of [`TOKEN_LISTS`] takes tokens away; a value that cannot be read may.
pub fn takes_tokens_away(fields: &[ResolvedField]) -> bool {
    let mut lists = fields.iter().filter(|field| TOKEN_LISTS.contains(&field.name.as_str()));
    lists.any(|field| match serde_json::from_str(&field.value) {
        Ok(Value::Null) => false,
        Ok(Value::Array(tokens)) => !tokens.is_empty(),
        Ok(Value::String(text)) => !text.is_empty(),
        Ok(_) => true,
        Err(_) => !field.value.trim().is_empty(),
    })
}

/// A step with what came before it.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The step.
    pub step: &'a StepRecord,
    /// The step before it in the sequence.
    pub previous: Option<&'a StepRecord>,
    /// `None` where the parameters are not known.
    pub rules: Option<SamplingRules>,
    /// Logits in a row; `None` where that is not known.
    pub vocabulary: Option<u32>,
    /// The mask of a hash, if it can be had.
    pub mask: &'a dyn Fn(&[u8; 32]) -> Option<MaskRecord>,
    /// The sketches of what a row passed through, by its index; `None` if they cannot be had.
    pub sketches: &'a dyn Fn(u32) -> Option<Vec<SketchRecord>>,
    /// The tokens of the sequence up to the end of the step.
    pub tokens: &'a [u32],
}

/// A sign that a step can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// The step before accepted more tokens than this one has rows.
    ShrunkQuery,
    /// The step before accepted drafts, and this one has none.
    DraftlessAfterAcceptance,
    /// The step before accepted nothing at all.
    NothingAccepted,
    /// A token was emitted that its mask does not allow.
    TokenOutsideMask,
    /// A row that was judged allows every token while the grammar is at work.
    MaskAllowsEverything,
    /// The grammar took in another number of tokens than were constrained.
    GrammarOutOfStep,
    /// A row with a NaN, an infinity or nothing finite gave a token.
    InvalidRowGaveToken,
    /// A greedy request emitted another token than the best one that is allowed.
    NotTheBestToken,
    /// A token came from the row after the last draft, though a draft was rejected.
    BonusBesideRejection,
    /// A draft was accepted whose probability is 0.
    ImpossibleDraftAccepted,
    /// The mask that was applied is another one than the scheduler filled.
    MasksDiffer,
    /// Tokens came after the end of the sequence or of its grammar.
    TokensAfterTheEnd,
    /// What was verified is another token than what was proposed.
    DraftChanged,
    /// A short convolution gave zeros alone.
    SilentConvolution,
    /// A token was emitted that min-p or top-k cuts.
    FilterSkipped,
    /// A seeded request that draws verifies another number of drafts than in the step before.
    DraftLengthVaries,
    /// The token that came is not the best one, and nearly as good.
    NearTie,
    /// The one token that had to come was drafted, and rejected.
    ForcedDraftRejected,
    /// The same few tokens again and again.
    Repeats,
}

/// A difference of logits at which two tokens are as good as each other: that of about one bit of a bfloat16.
const TIE: f32 = 0.125;

impl Sign {
    /// Every sign.
    pub const ALL: [Self; 19] = [
        Self::ShrunkQuery,
        Self::DraftlessAfterAcceptance,
        Self::NothingAccepted,
        Self::TokenOutsideMask,
        Self::MaskAllowsEverything,
        Self::GrammarOutOfStep,
        Self::InvalidRowGaveToken,
        Self::NotTheBestToken,
        Self::BonusBesideRejection,
        Self::ImpossibleDraftAccepted,
        Self::MasksDiffer,
        Self::TokensAfterTheEnd,
        Self::DraftChanged,
        Self::SilentConvolution,
        Self::FilterSkipped,
        Self::DraftLengthVaries,
        Self::NearTie,
        Self::ForcedDraftRejected,
        Self::Repeats,
    ];

    /// Its name, which is that of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShrunkQuery => "shrunk_query",
            Self::DraftlessAfterAcceptance => "draftless_after_acceptance",
            Self::NothingAccepted => "nothing_accepted",
            Self::TokenOutsideMask => "token_outside_mask",
            Self::MaskAllowsEverything => "mask_allows_everything",
            Self::GrammarOutOfStep => "grammar_out_of_step",
            Self::InvalidRowGaveToken => "invalid_row_gave_token",
            Self::NotTheBestToken => "not_the_best_token",
            Self::BonusBesideRejection => "bonus_beside_rejection",
            Self::ImpossibleDraftAccepted => "impossible_draft_accepted",
            Self::MasksDiffer => "masks_differ",
            Self::TokensAfterTheEnd => "tokens_after_the_end",
            Self::DraftChanged => "draft_changed",
            Self::SilentConvolution => "silent_convolution",
            Self::FilterSkipped => "filter_skipped",
            Self::DraftLengthVaries => "draft_length_varies",
            Self::NearTie => "near_tie",
            Self::ForcedDraftRejected => "forced_draft_rejected",
            Self::Repeats => "repeats",
        }
    }

    /// Whether a step that shows it is at fault, whatever else holds.
    pub fn is_finding(self) -> bool {
        match self {
            Self::NothingAccepted
            | Self::TokenOutsideMask
            | Self::GrammarOutOfStep
            | Self::InvalidRowGaveToken
            | Self::NotTheBestToken
            | Self::BonusBesideRejection
            | Self::ImpossibleDraftAccepted
            | Self::MasksDiffer
            | Self::TokensAfterTheEnd
            | Self::FilterSkipped
            | Self::ForcedDraftRejected => true,
            Self::ShrunkQuery
            | Self::DraftlessAfterAcceptance
            | Self::MaskAllowsEverything
            | Self::DraftChanged
            | Self::SilentConvolution
            | Self::DraftLengthVaries
            | Self::NearTie
            | Self::Repeats => false,
        }
    }

    /// Whether the step shows it; `None` where what it asks is not recorded.
    pub fn shows(self, seen: &Seen<'_>) -> Option<bool> {
        let step = seen.step;
        match self {
            Self::ShrunkQuery => Some(step.prev_accepted? > step.q_len?),
            Self::DraftlessAfterAcceptance => Some(step.prev_accepted? > 1 && step.drafts.is_empty()),
            Self::NothingAccepted => Some(step.prev_accepted? == 0),
            Self::TokenOutsideMask => any(judged(step)
                .filter_map(|(row, token)| Some((row.applied_mask.or(row.scheduler_mask)?, token)))
                .map(|(hash, token)| Some(!allows(&(seen.mask)(&hash)?, token)))),
            Self::MaskAllowsEverything => {
                any(judged(step).filter(|(row, _)| row.applied_mask.is_some()).map(|(row, _)| {
                    let is_at_work = step.grammar.as_ref().is_some_and(|grammar| !grammar.terminated);
                    Some(row.mask_population? == seen.vocabulary? && is_at_work)
                }))
            }
            Self::GrammarOutOfStep => {
                let Some(grammar) = &step.grammar else { return Some(false) };
                let constrained = judged(step).filter(|(row, _)| row.scheduler_mask.is_some()).count() as u64;
                let is_committed = !matches!(step.stop, Some(StopReason::Failed(_)));
                Some(is_committed && grammar.after.checked_sub(grammar.before) != Some(constrained))
            }
            Self::InvalidRowGaveToken => any(judged(step).map(|(row, _)| {
                let statistics = row.statistics?;
                Some(statistics.nan_count > 0 || statistics.positive_infinity_count > 0 || statistics.argmax.is_none())
            })),
            Self::NotTheBestToken => any(judged(step).map(|(row, token)| not_the_best(seen, row, token))),
            Self::BonusBesideRejection => {
                let verdicts = step.verdicts.as_ref()?;
                let is_full = step.emitted.len() > step.drafts.len();
                Some(!verdicts.is_empty() && is_full && verdicts.iter().any(|verdict| !verdict.accepted))
            }
            Self::ImpossibleDraftAccepted => {
                let verdicts = step.verdicts.as_ref()?;
                Some(verdicts.iter().any(|verdict| verdict.accepted && verdict.p == Some(0.0)))
            }
            Self::MasksDiffer => any(judged(step).map(|(row, _)| match (row.scheduler_mask, row.applied_mask) {
                (None, None) => Some(false),
                (filled, applied) if step.grammar.is_some() => Some(filled != applied),
                (filled, applied) => Some(filled? != applied?),
            })),
            Self::TokensAfterTheEnd => {
                let previous = seen.previous;
                let ended = previous.is_some_and(|step| {
                    step.stop.is_some() || step.grammar.as_ref().is_some_and(|grammar| grammar.terminated)
                });
                Some(ended && !step.emitted.is_empty())
            }
            Self::DraftChanged => {
                let raw = step.drafts_raw.as_ref()?;
                let differs = |(draft, raw): (&i64, &u32)| *draft != -1 && *draft != i64::from(*raw);
                Some(step.drafts.iter().zip(raw).any(differs))
            }
            Self::SilentConvolution => any((0..step.rows.len() as u32).map(|row| is_silent(&(seen.sketches)(row)?))),
            Self::FilterSkipped => any(judged(step).map(|(row, _)| filter_skipped(seen.rules?, row))),
            Self::DraftLengthVaries => {
                let rules = seen.rules?;
                let before = seen.previous.map_or(step.drafts.len(), |previous| previous.drafts.len());
                Some(rules.is_seeded && rules.temperature > 0.0 && before != step.drafts.len())
            }
            Self::NearTie => any(judged(step).map(|(row, _)| Some(row.rank? > 0 && row.margin? < TIE))),
            Self::ForcedDraftRejected => forced_draft_rejected(step),
            Self::Repeats => Some(super::repetition::period(seen.tokens).is_some()),
        }
    }
}

/// The rows that gave a token, with it.
fn judged(step: &StepRecord) -> impl Iterator<Item = (&RowRecord, u32)> {
    step.rows.iter().zip(step.emitted.iter().copied())
}

/// Whether any of the answers is yes; `None` if none is, and some are not known.
fn any(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut known = Some(false);
    for answer in answers {
        match answer {
            Some(true) => return Some(true),
            Some(false) => {}
            None => known = None,
        }
    }
    known
}

/// Whether a mask allows a token.
pub(crate) fn allows(mask: &MaskRecord, token: u32) -> bool {
    token < mask.tokens && mask.bits.get(token as usize / 8).is_some_and(|byte| byte >> (token % 8) & 1 == 1)
}

/// For a greedy request whose values nothing moves: the token is the raw row's best, or the best that the mask leaves, which
/// is known where it leaves one alone or leaves the raw row's best.
fn not_the_best(seen: &Seen<'_>, row: &RowRecord, token: u32) -> Option<bool> {
    let rules = seen.rules?;
    if rules.temperature > 0.0 {
        return Some(false);
    }
    if let Some(forced) = row.forced {
        return Some(forced.token != token);
    }
    if rules.moves_values {
        return None;
    }
    let best = row.statistics?.argmax?;
    match row.applied_mask {
        None => Some(best != token),
        Some(hash) => {
            let mask = (seen.mask)(&hash)?;
            if allows(&mask, best) { Some(best != token) } else { None }
        }
    }
}

/// Whether a short convolution gave zeros alone, by the sketches of a row; `None` without sketches.
fn is_silent(sketches: &[SketchRecord]) -> Option<bool> {
    let mut convolutions = sketches.iter().filter(|sketch| sketch.operation == "short_convolution");
    let is_zero = |sketch: &SketchRecord| !sketch.values.is_empty() && sketch.values.iter().all(|value| *value == 0.0);
    (!sketches.is_empty()).then(|| convolutions.any(is_zero))
}

/// Whether a drawn token is one that min-p or top-k cuts, where no mask and no parameter moves values.
fn filter_skipped(rules: SamplingRules, row: &RowRecord) -> Option<bool> {
    if rules.temperature == 0.0 || rules.moves_values || row.applied_mask.is_some() {
        return Some(false);
    }
    let beyond_top_k = rules.top_k.is_some_and(|count| row.rank.is_some_and(|rank| rank >= count));
    // A little less than the bound, for the rounding of another engine.
    let weight = f64::from(-row.margin? / rules.temperature).exp() * 1.001;
    Some(beyond_top_k || weight < f64::from(rules.min_p))
}

/// Whether a draft that was the only allowed token was rejected.
fn forced_draft_rejected(step: &StepRecord) -> Option<bool> {
    let verdicts = step.verdicts.as_ref()?;
    let rejected = |((row, draft), verdict): ((&RowRecord, &i64), &crate::capture::records::DraftVerdict)| {
        let is_judged = !matches!(verdict.reason, VerdictReason::AfterRejection | VerdictReason::AfterEnd);
        let is_forced = row.forced.is_some_and(|forced| i64::from(forced.token) == *draft);
        is_judged && is_forced && !verdict.accepted
    };
    Some(step.rows.iter().zip(&step.drafts).zip(verdicts).any(rejected))
}

#[cfg(test)]
#[path = "signs_tests.rs"]
mod tests;
