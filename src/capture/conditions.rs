//! The scalar conditions of a step: one definition for the `columns` channel and for exported tables.

use super::records::{RowRecord, RowStatistics, SchedulerMode, StepPath, StepRecord, StopReason, WithheldReason};

/// One condition: a value that a step record has, or that is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Name of its column.
    pub name: &'static str,
    /// What it counts. Conditions of one unit can be compared with each other, unless that is [`Unit::Id`].
    pub unit: Unit,
    /// What it can be to a fault.
    pub role: Role,
    /// What it says.
    pub meaning: &'static str,
    /// The first format version whose records say it; of older ones it is unknown.
    since: u32,
    read: Read,
}

/// What a condition counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Numbers of steps, requests and choices, which are names: such a condition is compared with itself alone, in other steps.
    Id,
    /// Tokens of a sequence, by place.
    Position,
    /// Tokens of a step: drafted, verified, accepted.
    Tokens,
    /// Tokens of the vocabulary.
    Vocabulary,
    /// Logits rows of a step.
    Rows,
    /// Sequences of a batch, their places, and rows of state.
    Slots,
    /// Nanoseconds.
    Nanoseconds,
    /// True or false.
    Truth,
    /// One of a few words.
    Word,
    /// Logits, and logarithms of probabilities.
    Logits,
    /// Probabilities.
    Probability,
}

/// What a condition can be to a fault that shows in a step's logits: whether it may be looked for as the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// How the engine stood before the step had logits: a cause, of this step or of a later one.
    State,
    /// What the step's logits led to. It is no cause of them, and part of the engine's state in the next step.
    Result,
    /// How the logits stood: what a fault shows itself by.
    Symptom,
    /// A matter of what is being written, which the text decides and not the engine.
    Content,
    /// A number that tells requests apart.
    Name,
    /// A time: another one in every run.
    Clock,
}

/// How a condition is read off a step record.
#[derive(Clone, Copy, Debug)]
enum Read {
    Small(fn(&StepRecord) -> Option<u32>),
    Large(fn(&StepRecord) -> Option<u64>),
    Truth(fn(&StepRecord) -> Option<bool>),
    Word(fn(&StepRecord) -> Option<&'static str>),
}

/// The values of one condition, step by step.
#[derive(Clone, Debug)]
pub enum Values {
    /// Counts.
    Small(Column<u32>),
    /// Ids, places and times.
    Large(Column<u64>),
    /// Truths.
    Truth(Column<bool>),
    /// Words.
    Word(Column<&'static str>),
}

/// Values of one type, and how they are read; `None` is unknown.
#[derive(Clone, Debug)]
pub struct Column<T> {
    read: fn(&StepRecord) -> Option<T>,
    values: Vec<Option<T>>,
}

/// The conditions of a run of steps: a column for each of [`CONDITIONS`].
#[derive(Clone, Debug)]
pub struct Conditions {
    columns: Vec<Values>,
    format_version: u32,
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
            Self::Logits => "logits",
            Self::Probability => "probability",
        }
    }
}

impl Condition {
    /// Its column of steps of that format version, with no values.
    pub fn column(&self, format_version: u32) -> Values {
        let is_known = format_version >= self.since;
        match self.read {
            Read::Small(read) => Values::Small(Column::new(is_known, read)),
            Read::Large(read) => Values::Large(Column::new(is_known, read)),
            Read::Truth(read) => Values::Truth(Column::new(is_known, read)),
            Read::Word(read) => Values::Word(Column::new(is_known, read)),
        }
    }
}

impl<T: Copy> Column<T> {
    fn new(is_known: bool, read: fn(&StepRecord) -> Option<T>) -> Self {
        Self { read: if is_known { read } else { |_| None }, values: Vec::new() }
    }

    fn push(&mut self, step: &StepRecord, lines: usize) {
        let value = (self.read)(step);
        self.values.extend(std::iter::repeat_n(value, lines));
    }

    /// The values so far.
    pub fn values(&self) -> &[Option<T>] {
        &self.values
    }
}

impl Values {
    fn push(&mut self, step: &StepRecord, lines: usize) {
        match self {
            Self::Small(column) => column.push(step, lines),
            Self::Large(column) => column.push(step, lines),
            Self::Truth(column) => column.push(step, lines),
            Self::Word(column) => column.push(step, lines),
        }
    }

    fn forget(&mut self, lines: usize) {
        match self {
            Self::Small(column) => drop(column.values.drain(..lines)),
            Self::Large(column) => drop(column.values.drain(..lines)),
            Self::Truth(column) => drop(column.values.drain(..lines)),
            Self::Word(column) => drop(column.values.drain(..lines)),
        }
    }
}

impl Conditions {
    /// Those of no steps yet, whose records are of that format version.
    pub fn of_format(format_version: u32) -> Self {
        let columns = CONDITIONS.iter().map(|condition| condition.column(format_version)).collect();
        Self { columns, format_version, steps: 0 }
    }

    /// Adds a step.
    pub fn push(&mut self, step: &StepRecord) {
        self.push_lines(step, 1);
    }

    /// Adds a step that takes so many lines of a table, which all say the same of it.
    pub fn push_lines(&mut self, step: &StepRecord, lines: usize) {
        self.columns.iter_mut().for_each(|column| column.push(step, lines));
        self.steps += lines;
    }

    /// Those so far; none are left here.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::of_format(self.format_version))
    }

    /// Forgets the first lines, all of them if there are fewer.
    pub fn forget(&mut self, lines: usize) {
        let lines = lines.min(self.steps);
        self.columns.iter_mut().for_each(|column| column.forget(lines));
        self.steps -= lines;
    }

    /// Steps so far, or lines.
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

/// A condition, by its name, its unit, its role, what it says and how it is read.
macro_rules! conditions {
    ($($name:ident $unit:ident $role:ident $kind:ident $meaning:literal $(since $since:literal)? = $value:expr;)*) => {
        /// Every condition, in the order of the columns.
        pub const CONDITIONS: &[Condition] = &[
            $(Condition {
                name: stringify!($name),
                unit: Unit::$unit,
                role: Role::$role,
                meaning: $meaning,
                since: 1 $(- 1 + $since)?,
                read: Read::$kind($value),
            }),*
        ];
    };
}

conditions! {
    step Id State Large "the step" = |step| Some(step.step);
    request Id Name Large "the request" = |step| Some(step.request);
    choice Id Name Small "the choice" = |step| Some(step.choice);
    first_position Position State Small "position of the first token read" = |step| Some(step.first_position);
    time_ns Nanoseconds Clock Large "when it was recorded" = |step| step.time_ns;
    path Word State Word "prefill, decode or verify" = |step| Some(match step.path? {
        StepPath::Prefill => "prefill",
        StepPath::Decode => "decode",
        StepPath::Verify => "verify",
    });
    scheduler Word State Word "sync or async" = |step| Some(match step.scheduler? {
        SchedulerMode::Sync => "sync",
        SchedulerMode::Async => "async",
    });
    q_len Tokens State Small "tokens read" = |step| step.q_len;
    prev_accepted Tokens State Small "accepted length of the step before" = |step| step.prev_accepted;
    batch_slot Slots State Small "place in the batch" = |step| step.batch.as_ref().map(|batch| batch.slot);
    batch_size Slots State Small "sequences in the batch" = |step| {
        step.batch.as_ref().map(|batch| u32::try_from(batch.neighbours.len()).map_or(u32::MAX, |count| count.saturating_add(1)))
    };
    cached_prefix Position State Small "tokens taken from the prefix cache" = |step| step.cached_prefix;
    state_slot Slots State Small "row of recurrent state" = |step| step.state.map(|state| state.slot);
    state_column Tokens State Small "column that its history began at" = |step| step.state.map(|state| state.column);
    drafts Tokens State Small "drafts in the query" = |step| Some(count(step.drafts.len()));
    drafts_raw Tokens State Small "drafts proposed" = |step| step.drafts_raw.as_ref().map(|drafts| count(drafts.len()));
    withheld Tokens State Small "drafts proposed and not verified" = |step| withheld(step, |_| true);
    withheld_by_grammar Tokens State Small "of these, refused by the grammar" = |step| withheld(step, |reason| reason == WithheldReason::Grammar);
    withheld_as_missing Tokens State Small "of these, never arrived" = |step| withheld(step, |reason| reason == WithheldReason::Missing);
    withheld_at_limit Tokens State Small "of these, past a limit" = |step| withheld(step, |reason| reason == WithheldReason::Limit);
    drafts_accepted Tokens Result Small "drafts accepted" = |step| {
        step.verdicts.as_ref().map(|verdicts| count(verdicts.iter().filter(|verdict| verdict.accepted).count()))
    };
    emitted Tokens Result Small "accepted length: tokens emitted" = |step| Some(count(step.emitted.len()));
    bonus Truth Result Truth "the last token is that of the row after all drafts" = |step| step.bonus;
    stop Word Result Word "why the sequence ended, if it did" = |step| Some(match step.stop.as_ref()? {
        StopReason::EndToken(_) => "end_token",
        StopReason::StopToken(_) => "stop_token",
        StopReason::StopString(_) => "stop_string",
        StopReason::MaxTokens => "max_tokens",
        StopReason::ContextFull => "context_full",
        StopReason::GrammarEnd => "grammar_end",
        StopReason::Failed(_) => "failed",
        StopReason::Cancelled => "cancelled",
    });
    grammar_before Position State Large "tokens that the grammar had consumed before" = |step| step.grammar.as_ref().map(|grammar| grammar.before);
    grammar_after Position Result Large "tokens that it has consumed after" = |step| step.grammar.as_ref().map(|grammar| grammar.after);
    grammar_terminated Truth Result Truth "whether it has ended" = |step| step.grammar.as_ref().map(|grammar| grammar.terminated);
    reasoning Truth State Truth "whether it has not begun" = |step| step.grammar.as_ref().map(|grammar| grammar.reasoning);
    schedule_ns Nanoseconds Clock Large "drafting and scheduling" = |step| step.timings.map(|timings| timings.schedule_ns);
    forward_ns Nanoseconds Clock Large "the forward pass" = |step| step.timings.map(|timings| timings.forward_ns);
    sample_ns Nanoseconds Clock Large "masks, sampling and acceptance" = |step| step.timings.map(|timings| timings.sample_ns);
    rows Rows State Small "logits rows" = |step| Some(count(known_rows(step)?.len()));
    rows_masked Rows State Small "rows with a mask" = |step| rows(step, is_masked);
    rows_forced Rows Content Small "rows whose mask allows one token" since 2 = |step| rows(step, is_forced);
    rows_misranked Rows Symptom Small "of these, rows whose best token was another" since 2 = |step| {
        rows(step, |step, row| match row.forced {
            Some(forced) => forced.rank.map(|rank| rank > 0),
            None => is_forced(step, row),
        })
    };
    rows_invalid Rows Symptom Small "rows with NaN or +infinity, or with nothing above -infinity" = |step| {
        rows(step, |_, row| row.statistics.as_ref().map(RowStatistics::is_invalid))
    };
    least_mask_population Vocabulary Content Small "tokens that its narrowest applied mask allows" = |step| {
        let populations = known_rows(step)?.iter().map(|row| applied_population(step, row));
        populations.collect::<Option<Vec<_>>>()?.into_iter().flatten().min()
    };
    worst_forced_rank Vocabulary Symptom Small "rank of the forced token that stood lowest" since 2 = |step| {
        let ranks = known_rows(step)?.iter().map(|row| match (row.forced, is_forced(step, row)?) {
            (Some(forced), _) => Some(Some(forced.rank?)),
            (None, _) => Some(None),
        });
        ranks.collect::<Option<Vec<_>>>()?.into_iter().flatten().max()
    };
}

/// The rows of a step, where they are known. A record without any says nothing of them, unless its step is a chunk of the
/// prompt that does not end it: that has none.
pub(crate) fn known_rows(step: &StepRecord) -> Option<&[RowRecord]> {
    let is_within_prompt = step.path == Some(StepPath::Prefill) && step.emitted.is_empty() && step.stop.is_none();
    (!step.rows.is_empty() || is_within_prompt).then_some(&step.rows)
}

/// How many rows are such; `None` if of one it is not known.
fn rows(step: &StepRecord, is_such: impl Fn(&StepRecord, &RowRecord) -> Option<bool>) -> Option<u32> {
    known_rows(step)?.iter().map(|row| is_such(step, row)).try_fold(0, |sum, such| Some(sum + u32::from(such?)))
}

/// Whether the row has a mask. That it has none is known of a step whose grammar is recorded.
pub(crate) fn is_masked(step: &StepRecord, row: &RowRecord) -> Option<bool> {
    let has_mask = row.scheduler_mask.is_some()
        || row.applied_mask.is_some()
        || row.mask_population.is_some()
        || row.forced.is_some();
    if has_mask { Some(true) } else { step.grammar.as_ref().map(|_| false) }
}

/// Whether the scheduler's mask allows one token alone. Since version 2 a row with that mask says which, if it does.
pub(crate) fn is_forced(step: &StepRecord, row: &RowRecord) -> Option<bool> {
    match row.scheduler_mask {
        _ if row.forced.is_some() => Some(true),
        Some(_) => Some(false),
        None if is_masked(step, row)? => None,
        None => Some(false),
    }
}

/// Tokens that the row's applied mask allows; `None` if that is not known, `Some(None)` of a row that had none.
fn applied_population(step: &StepRecord, row: &RowRecord) -> Option<Option<u32>> {
    // The sampler was given no mask of a row that it did not look at.
    let is_without = !is_masked(step, row)? || (row.applied_mask.is_none() && row.token.is_none());
    match row.mask_population {
        Some(population) => Some(Some(population)),
        None => is_without.then_some(None),
    }
}

fn withheld(step: &StepRecord, is_counted: impl Fn(WithheldReason) -> bool) -> Option<u32> {
    let withheld = step.withheld.as_ref()?;
    Some(count(withheld.iter().filter(|draft| is_counted(draft.reason)).count()))
}

/// A length as a count; a message's length bounds it far below.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
