//! The units that a label judges, and what is known of each: their conditions, and those of the step before.

use std::ops::Range;

use super::bits::Bits;
use super::label::Judgement;
use crate::capture::conditions::{CONDITIONS, Condition, Conditions, Role, Unit, Values};
use crate::capture::records::StepRecord;
use crate::types::SequenceId;

/// What the conditions of the step before are called: `previous.q_len`.
pub const PREVIOUS: &str = "previous.";

/// What counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitOfTable {
    /// A step of a sequence.
    Step,
    /// A sequence as a whole: a condition holds of it that holds in one of its steps.
    Sequence,
}

/// Where a unit is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPlace {
    /// Index of the capture.
    pub capture: usize,
    /// The sequence.
    pub sequence: SequenceId,
    /// The step; the first one, of a sequence as a whole.
    pub step: u64,
}

/// What was read, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Step records.
    pub steps: u64,
    /// Step records that could not be read.
    pub unreadable: u64,
    /// Sequences that have steps.
    pub sequences: u64,
    /// Units that fail.
    pub failing: u64,
    /// Sequences that have such.
    pub failing_sequences: u64,
    /// Units that do not.
    pub passing: u64,
    /// Units that there is nothing to judge of.
    pub no_site: u64,
    /// Units of which it is not known whether they fail, or whether there is something to judge.
    pub unknown: u64,
    /// Units that are judged and not counted, since another of their sequence fails before them.
    pub censored: u64,
}

/// A condition of the units, or of the steps before them.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// The condition.
    pub condition: &'static Condition,
    /// Its place among all conditions.
    place: usize,
    /// Whether it is that of the step before.
    pub is_previous: bool,
    /// Whether the label is made of it.
    is_of_label: bool,
    /// The steps of which it is known.
    pub known: Bits,
    /// Its values; where it is not known, any.
    pub cells: Cells,
}

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Cells {
    /// Numbers.
    Number(Vec<i64>),
    /// Truths.
    Truth(Bits),
    /// Words, as indices.
    Word(Vec<u8>, Vec<&'static str>),
}

/// The judged units.
#[derive(Clone, Debug)]
pub struct Table {
    /// What counts as one.
    pub unit: UnitOfTable,
    /// The conditions that can be looked at: engine state, and what the text decides.
    pub columns: Vec<TableColumn>,
    /// Where each unit is found.
    pub places: Vec<UnitPlace>,
    /// The steps of each unit; `None` where each is one.
    pub steps: Option<Vec<Range<usize>>>,
    /// The units that fail, as far as they count.
    pub failing: Bits,
    /// The units that count: with censoring, those up to the first failing one of their sequence. The others are kept for what
    /// their conditions are.
    pub counted: Bits,
    /// Whether units are censored.
    pub is_censored: bool,
    /// The units of each sequence.
    pub sequences: Vec<Range<usize>>,
    /// What was read.
    pub reading: Reading,
}

/// Makes a table of steps, sequence by sequence and in order. Of a step that is not judged nothing is kept.
#[derive(Debug)]
pub struct TableBuilder {
    table: Table,
    capture: usize,
    sequence: Option<SequenceId>,
    /// Where the units of the sequence begin, and its steps.
    start: (usize, usize),
    stored: usize,
    /// The step and the one before it.
    window: Conditions,
    has_failed: bool,
    /// Of a sequence that is judged as a whole.
    whole: Option<Judgement>,
}

impl TableColumn {
    /// Its name.
    pub fn name(&self) -> String {
        format!("{}{}", if self.is_previous { PREVIOUS } else { "" }, self.condition.name)
    }

    /// Whether it may be looked for as a cause.
    pub fn is_state(&self) -> bool {
        let may_be = match self.condition.role {
            Role::State => true,
            Role::Result => self.is_previous,
            Role::Symptom | Role::Content | Role::Name | Role::Clock => false,
        };
        may_be && !self.is_of_label
    }

    /// Whether a condition is kept, of a step or of the one before.
    fn is_kept(condition: &Condition, is_previous: bool) -> bool {
        match condition.role {
            Role::State => true,
            Role::Result => is_previous,
            Role::Content => !is_previous,
            Role::Symptom | Role::Name | Role::Clock => false,
        }
    }

    fn new(place: usize, condition: &'static Condition, is_previous: bool) -> Self {
        let cells = match condition.column(0) {
            Values::Small(_) | Values::Large(_) => Cells::Number(Vec::new()),
            Values::Truth(_) => Cells::Truth(Bits::default()),
            Values::Word(_) => Cells::Word(Vec::new(), Vec::new()),
        };
        Self { condition, place, is_previous, is_of_label: false, known: Bits::default(), cells }
    }

    /// Adds the value of a line; none if there is no such line.
    fn push(&mut self, values: &Values, line: Option<usize>) {
        let known = match (&mut self.cells, values) {
            (Cells::Number(numbers), Values::Small(column)) => {
                let value = at(column.values(), line).map(i64::from);
                numbers.push(value.unwrap_or(0));
                value.is_some()
            }
            (Cells::Number(numbers), Values::Large(column)) => {
                // A number past all that engines count to is not known for what it is.
                let value = at(column.values(), line).and_then(|value| i64::try_from(value).ok());
                numbers.push(value.unwrap_or(0));
                value.is_some()
            }
            (Cells::Truth(truths), Values::Truth(column)) => {
                let value = at(column.values(), line);
                truths.push(value == Some(true));
                value.is_some()
            }
            (Cells::Word(codes, words), Values::Word(column)) => {
                let code = at(column.values(), line).and_then(|word| {
                    let index = words.iter().position(|known| *known == word).unwrap_or_else(|| {
                        words.push(word);
                        words.len() - 1
                    });
                    u8::try_from(index).ok()
                });
                codes.push(code.unwrap_or(0));
                code.is_some()
            }
            (Cells::Number(numbers), _) => {
                numbers.push(0);
                false
            }
            (Cells::Truth(truths), _) => {
                truths.push(false);
                false
            }
            (Cells::Word(codes, _), _) => {
                codes.push(0);
                false
            }
        };
        self.known.push(known);
    }
}

fn at<T: Copy>(values: &[Option<T>], line: Option<usize>) -> Option<T> {
    values.get(line?).copied().flatten()
}

impl TableBuilder {
    /// A table without units. With `is_censored`, what comes after the first failing unit of a sequence does not count.
    /// The columns that the label is made of, by their names, are looked for as no cause.
    pub fn new(unit: UnitOfTable, is_censored: bool, of_label: &[String]) -> Self {
        let of_each = |(place, condition): (usize, &'static Condition)| {
            let kept =
                [false, true].into_iter().filter(move |is_previous| TableColumn::is_kept(condition, *is_previous));
            kept.map(move |is_previous| TableColumn::new(place, condition, is_previous))
        };
        let mut columns: Vec<TableColumn> = CONDITIONS.iter().enumerate().flat_map(of_each).collect();
        columns.sort_by_key(|column| column.is_previous);
        columns.iter_mut().for_each(|column| column.is_of_label = of_label.contains(&column.name()));
        let table = Table {
            unit,
            columns,
            places: Vec::new(),
            steps: (unit == UnitOfTable::Sequence).then(Vec::new),
            failing: Bits::default(),
            counted: Bits::default(),
            is_censored: is_censored && unit == UnitOfTable::Step,
            sequences: Vec::new(),
            reading: Reading::default(),
        };
        Self {
            table,
            capture: 0,
            sequence: None,
            start: (0, 0),
            stored: 0,
            window: Conditions::of_format(0),
            has_failed: false,
            whole: None,
        }
    }

    /// Begins a sequence of a capture of that format version. Where sequences are judged as a whole, `whole` says how.
    pub fn begin(&mut self, capture: usize, sequence: SequenceId, format_version: u32, whole: Option<Judgement>) {
        self.end();
        self.capture = capture;
        self.sequence = Some(sequence);
        self.start = (self.table.places.len(), self.stored);
        self.window = Conditions::of_format(format_version);
        self.has_failed = false;
        self.whole = whole;
        self.table.reading.sequences += 1;
    }

    /// A step of the sequence could not be read: what comes after it has no known step before it.
    pub fn unreadable(&mut self) {
        self.table.reading.unreadable += 1;
        self.window.take();
    }

    /// Adds a step of the sequence. How it is judged does not matter where sequences are judged as a whole.
    pub fn add(&mut self, step: &StepRecord, judgement: Judgement) {
        self.table.reading.steps += 1;
        self.window.push(step);
        if self.window.len() > 2 {
            self.window.forget(1);
        }
        let Some(sequence) = self.sequence else { return };
        if let Some(whole) = self.whole {
            if matches!(whole, Judgement::Failing | Judgement::Passing) {
                self.store();
                if self.table.places.len() == self.start.0 {
                    self.table.places.push(UnitPlace { capture: self.capture, sequence, step: step.step });
                }
            }
            return;
        }
        let is_failing = match judgement {
            Judgement::Failing => true,
            Judgement::Passing => false,
            Judgement::NoSite => return self.table.reading.no_site += 1,
            Judgement::Unknown => return self.table.reading.unknown += 1,
        };
        self.store();
        self.table.places.push(UnitPlace { capture: self.capture, sequence, step: step.step });
        if self.has_failed && self.table.is_censored {
            self.table.reading.censored += 1;
            self.table.failing.push(false);
            self.table.counted.push(false);
            return;
        }
        self.has_failed |= is_failing;
        self.count(is_failing);
    }

    /// The table.
    pub fn finish(mut self) -> Table {
        self.end();
        self.table
    }

    fn end(&mut self) {
        if self.sequence.take().is_none() {
            return;
        }
        match self.whole {
            Some(Judgement::NoSite) => self.table.reading.no_site += 1,
            Some(Judgement::Unknown) => self.table.reading.unknown += 1,
            Some(judgement @ (Judgement::Failing | Judgement::Passing)) if self.table.places.len() > self.start.0 => {
                if let Some(steps) = &mut self.table.steps {
                    steps.push(self.start.1..self.stored);
                }
                self.has_failed = judgement == Judgement::Failing;
                self.count(self.has_failed);
            }
            Some(_) | None => {}
        }
        self.table.reading.failing_sequences += u64::from(self.has_failed);
        let units = self.start.0..self.table.places.len();
        if !units.is_empty() {
            self.table.sequences.push(units);
        }
    }

    fn count(&mut self, is_failing: bool) {
        self.table.failing.push(is_failing);
        self.table.counted.push(true);
        let reading = &mut self.table.reading;
        *(if is_failing { &mut reading.failing } else { &mut reading.passing }) += 1;
    }

    /// Stores the last step of the window.
    fn store(&mut self) {
        let line = self.window.len().checked_sub(1);
        let before = line.and_then(|line| line.checked_sub(1));
        let values: Vec<&Values> = self.window.columns().map(|(_, values)| values).collect();
        for column in &mut self.table.columns {
            if let Some(values) = values.get(column.place) {
                column.push(values, if column.is_previous { before } else { line });
            }
        }
        self.stored += 1;
    }
}

impl Table {
    /// Units.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nothing could be judged.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The sequence of a unit, as the range of its units.
    pub fn sequence_of(&self, unit: usize) -> Range<usize> {
        let index = self.sequences.partition_point(|units| units.end <= unit);
        self.sequences.get(index).cloned().unwrap_or(unit..unit + 1)
    }

    /// Whether two columns may be compared with each other: they count the same.
    pub fn are_of_one_unit(left: &TableColumn, right: &TableColumn) -> bool {
        let is_itself = left.condition.name == right.condition.name;
        left.condition.unit == right.condition.unit && (left.condition.unit != Unit::Id || is_itself)
    }
}
