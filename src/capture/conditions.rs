//! The scalar conditions of a step: one definition for the `columns` channel and for exported tables.

use super::records::{RowRecord, RowStatistics, SchedulerMode, StepPath, StepRecord, StopReason, WithheldReason};

/// One condition: a value that every step record has, or that is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Name of its column.
    pub name: &'static str,
    /// What it counts. Conditions of one unit can be compared with each other.
    pub unit: Unit,
    /// What it says.
    pub meaning: &'static str,
    value: Value,
}

/// What a condition counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Numbers of steps, requests and grammar states, which are names.
    Id,
    /// Tokens of a sequence, by place.
    Position,
    /// Tokens of a step: drafted, verified, accepted.
    Tokens,
    /// Tokens of the vocabulary.
    Vocabulary,
    /// Logits rows of a step.
    Rows,
    /// Sequences of a batch, and their places.
    Slots,
    /// Nanoseconds.
    Nanoseconds,
    /// True or false.
    Truth,
    /// One of a few words.
    Word,
}

/// How a condition is read off a step record.
#[derive(Clone, Copy, Debug)]
enum Value {
    Small(fn(&StepRecord) -> Option<u32>),
    Large(fn(&StepRecord) -> Option<u64>),
    Truth(fn(&StepRecord) -> Option<bool>),
    Word(fn(&StepRecord) -> Option<&'static str>),
}

/// The values of one condition, step by step; `None` is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Counts.
    Small(Vec<Option<u32>>),
    /// Ids and times.
    Large(Vec<Option<u64>>),
    /// Truths.
    Truth(Vec<Option<bool>>),
    /// Words.
    Word(Vec<Option<&'static str>>),
}

/// The conditions of a run of steps: a column for each of [`CONDITIONS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    columns: Vec<Values>,
    steps: usize,
}

impl Unit {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Position => "position",
            Self::Tokens => "tokens",
            Self::Vocabulary => "vocabulary",
            Self::Rows => "rows",
            Self::Slots => "slots",
            Self::Nanoseconds => "nanoseconds",
            Self::Truth => "truth",
            Self::Word => "word",
        }
    }
}

impl Condition {
    /// Its column, with no values.
    pub fn empty(&self) -> Values {
        match self.value {
            Value::Small(_) => Values::Small(Vec::new()),
            Value::Large(_) => Values::Large(Vec::new()),
            Value::Truth(_) => Values::Truth(Vec::new()),
            Value::Word(_) => Values::Word(Vec::new()),
        }
    }

    /// Adds what the step says to the column, which is one of this condition.
    fn push(&self, step: &StepRecord, column: &mut Values) {
        match (self.value, column) {
            (Value::Small(value), Values::Small(column)) => column.push(value(step)),
            (Value::Large(value), Values::Large(column)) => column.push(value(step)),
            (Value::Truth(value), Values::Truth(column)) => column.push(value(step)),
            (Value::Word(value), Values::Word(column)) => column.push(value(step)),
            (_, column) => unreachable!("`{}` is no column of type {column:?}", self.name),
        }
    }
}

impl Default for Conditions {
    fn default() -> Self {
        Self { columns: CONDITIONS.iter().map(Condition::empty).collect(), steps: 0 }
    }
}

impl Conditions {
    /// Adds a step.
    pub fn push(&mut self, step: &StepRecord) {
        for (condition, column) in CONDITIONS.iter().zip(&mut self.columns) {
            condition.push(step, column);
        }
        self.steps += 1;
    }

    /// Steps so far.
    pub fn len(&self) -> usize {
        self.steps
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps == 0
    }

    /// Each condition with its values.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&'static Condition, &Values)> {
        CONDITIONS.iter().zip(&self.columns)
    }
}

/// A condition, by its name, its unit, what it says and how it is read.
macro_rules! conditions {
    ($($name:ident $unit:ident $kind:ident $meaning:literal = $value:expr;)*) => {
        /// Every condition, in the order of the columns.
        pub const CONDITIONS: &[Condition] = &[
            $(Condition {
                name: stringify!($name),
                unit: Unit::$unit,
                meaning: $meaning,
                value: Value::$kind($value),
            }),*
        ];
    };
}

conditions! {
    step Id Large "the step" = |step| Some(step.step);
    request Id Large "the request" = |step| Some(step.request);
    choice Id Small "the choice" = |step| Some(step.choice);
    first_position Position Small "position of the first token read" = |step| Some(step.first_position);
    time_ns Nanoseconds Large "when it was recorded" = |step| step.time_ns;
    path Word Word "prefill, decode or verify" = |step| Some(match step.path? {
        StepPath::Prefill => "prefill",
        StepPath::Decode => "decode",
        StepPath::Verify => "verify",
    });
    scheduler Word Word "sync or async" = |step| Some(match step.scheduler? {
        SchedulerMode::Sync => "sync",
        SchedulerMode::Async => "async",
    });
    q_len Tokens Small "tokens read" = |step| step.q_len;
    prev_accepted Tokens Small "accepted length of the step before" = |step| step.prev_accepted;
    batch_slot Slots Small "place in the batch" = |step| step.batch.as_ref().map(|batch| batch.slot);
    batch_size Slots Small "sequences in the batch" = |step| {
        step.batch.as_ref().map(|batch| u32::try_from(batch.neighbours.len()).map_or(u32::MAX, |count| count.saturating_add(1)))
    };
    cached_prefix Position Small "tokens taken from the prefix cache" = |step| step.cached_prefix;
    state_slot Id Small "row of recurrent state" = |step| step.state.map(|state| state.slot);
    state_column Tokens Small "column that its history began at" = |step| step.state.map(|state| state.column);
    drafts Tokens Small "drafts in the query" = |step| Some(count(step.drafts.len()));
    drafts_raw Tokens Small "drafts proposed" = |step| step.drafts_raw.as_ref().map(|drafts| count(drafts.len()));
    withheld Tokens Small "drafts proposed and not verified" = |step| withheld(step, |_| true);
    withheld_by_grammar Tokens Small "of these, refused by the grammar" = |step| withheld(step, |reason| reason == WithheldReason::Grammar);
    withheld_as_missing Tokens Small "of these, never arrived" = |step| withheld(step, |reason| reason == WithheldReason::Missing);
    withheld_at_limit Tokens Small "of these, past a limit" = |step| withheld(step, |reason| reason == WithheldReason::Limit);
    drafts_accepted Tokens Small "drafts accepted" = |step| {
        step.verdicts.as_ref().map(|verdicts| count(verdicts.iter().filter(|verdict| verdict.accepted).count()))
    };
    emitted Tokens Small "accepted length: tokens emitted" = |step| Some(count(step.emitted.len()));
    bonus Truth Truth "the last token is that of the row after all drafts" = |step| step.bonus;
    stop Word Word "why the sequence ended, if it did" = |step| Some(match step.stop.as_ref()? {
        StopReason::EndToken(_) => "end_token",
        StopReason::StopToken(_) => "stop_token",
        StopReason::StopString(_) => "stop_string",
        StopReason::MaxTokens => "max_tokens",
        StopReason::ContextFull => "context_full",
        StopReason::GrammarEnd => "grammar_end",
        StopReason::Failed(_) => "failed",
        StopReason::Cancelled => "cancelled",
    });
    grammar_before Id Large "where the grammar stood" = |step| step.grammar.as_ref().map(|grammar| grammar.before);
    grammar_after Id Large "where it stands after" = |step| step.grammar.as_ref().map(|grammar| grammar.after);
    grammar_terminated Truth Truth "whether it has ended" = |step| step.grammar.as_ref().map(|grammar| grammar.terminated);
    reasoning Truth Truth "whether it has not begun" = |step| step.grammar.as_ref().map(|grammar| grammar.reasoning);
    schedule_ns Nanoseconds Large "drafting and scheduling" = |step| step.timings.map(|timings| timings.schedule_ns);
    forward_ns Nanoseconds Large "the forward pass" = |step| step.timings.map(|timings| timings.forward_ns);
    sample_ns Nanoseconds Large "masks, sampling and acceptance" = |step| step.timings.map(|timings| timings.sample_ns);
    rows Rows Small "logits rows" = |step| Some(count(step.rows.len()));
    rows_masked Rows Small "rows with a mask" = |step| rows(step, |row| Some(row.mask_population.is_some()));
    rows_forced Rows Small "rows whose mask allows one token" = |step| rows(step, |row| Some(row.forced.is_some()));
    rows_misranked Rows Small "of these, rows whose best token was another" = |step| {
        rows(step, |row| row.forced.map_or(Some(false), |forced| forced.rank.map(|rank| rank > 0)))
    };
    rows_invalid Rows Small "rows with NaN or +infinity, or with nothing above -infinity" = |step| {
        rows(step, |row| row.statistics.as_ref().map(is_invalid))
    };
    least_mask_population Vocabulary Small "tokens that its narrowest mask allows" = |step| {
        step.rows.iter().filter_map(|row| row.mask_population).min()
    };
    worst_forced_rank Vocabulary Small "rank of the forced token that stood lowest" = |step| {
        step.rows.iter().filter_map(|row| row.forced?.rank).max()
    };
}

/// How many rows are such; `None` if of one it is not known.
fn rows(step: &StepRecord, is_such: impl Fn(&RowRecord) -> Option<bool>) -> Option<u32> {
    step.rows.iter().map(is_such).try_fold(0, |sum, such| Some(sum + u32::from(such?)))
}

fn is_invalid(statistics: &RowStatistics) -> bool {
    statistics.nan_count > 0 || statistics.positive_infinity_count > 0 || statistics.maximum == f32::NEG_INFINITY
}

fn withheld(step: &StepRecord, is_counted: impl Fn(WithheldReason) -> bool) -> Option<u32> {
    let withheld = step.withheld.as_ref()?;
    Some(count(withheld.iter().filter(|draft| is_counted(draft.reason)).count()))
}

/// A length as a count; a message's length bounds it far below.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
