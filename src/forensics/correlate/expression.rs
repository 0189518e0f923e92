//! Boolean expressions over columns, for labels: `worst_forced_rank > 3 and path == verify`.
//!
//! An expression that names a column of rows is judged row by row, and a step has what one of its rows has; a row that has no such
//! thing (a draft, a forced token) is passed over. A column that is not known makes the expression unknown, unless the rest
//! decides it.

mod parse;

use std::fmt;
use std::str::FromStr;

use super::columns::{Kind, ROW_COLUMNS, RowOfStep, Value, condition_value};
use super::label::Judgement;
use super::predicate::Comparison;
use crate::capture::conditions::{CONDITIONS, Conditions, known_rows};
use crate::capture::records::StepRecord;

pub use self::parse::ExpressionError;

/// An expression that is true or false of a step, or unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    node: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Truth(bool),
    Word(String),
    Column(Column),
    Sum(Box<Node>, f64),
    Compare(Box<Node>, Comparison, Box<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

/// A column, by its place in its list.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Condition { place: usize, is_previous: bool },
    Row(usize),
}

/// A step with its conditions, the last line, and those of the step before, the line before it if there is one.
#[derive(Clone, Copy)]
struct Seen<'a> {
    conditions: &'a Conditions,
    row: Option<RowOfStep<'a>>,
}

/// A value in an expression.
#[derive(Clone, Copy)]
enum Result<'a> {
    Number(f64),
    Truth(bool),
    Word(&'a str),
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> std::result::Result<Self, ExpressionError> {
        Ok(Self { text: text.to_owned(), node: parse::parse(text)? })
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Expression {
    /// Judges a step whose conditions are the last line.
    pub(super) fn judge(&self, step: &StepRecord, conditions: &Conditions) -> Judgement {
        let judged = |row| match self.node.truth(Seen { conditions, row }) {
            Some(true) => Judgement::Failing,
            Some(false) => Judgement::Passing,
            None => Judgement::Unknown,
        };
        let columns = self.columns();
        if !columns.iter().any(|column| matches!(column, Column::Row(_))) {
            return judged(None);
        }
        match known_rows(step) {
            None => Judgement::Unknown,
            Some(rows) => {
                let is_absent = |row: &RowOfStep<'_>| columns.iter().any(|column| column.is_absent(*row));
                let rows = rows.iter().enumerate().map(|(index, row)| RowOfStep { step, index, row });
                rows.filter(|row| !is_absent(row)).map(|row| judged(Some(row))).max().unwrap_or(Judgement::NoSite)
            }
        }
    }
}

impl Expression {
    /// The names of the columns of steps that it asks for, with `previous.` before those of the step before.
    pub(super) fn conditions(&self) -> Vec<String> {
        self.columns().into_iter().filter_map(Column::condition).collect()
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        self.node.collect(&mut columns);
        columns
    }
}

impl Node {
    fn collect(&self, columns: &mut Vec<Column>) {
        match self {
            Self::Number(_) | Self::Truth(_) | Self::Word(_) => {}
            Self::Column(column) => columns.push(*column),
            Self::Sum(node, _) | Self::Not(node) => node.collect(columns),
            Self::Compare(left, _, right) | Self::And(left, right) | Self::Or(left, right) => {
                left.collect(columns);
                right.collect(columns);
            }
        }
    }

    fn truth(&self, seen: Seen<'_>) -> Option<bool> {
        match self.value(seen)? {
            Result::Truth(truth) => Some(truth),
            Result::Number(_) | Result::Word(_) => None,
        }
    }

    fn value<'a>(&'a self, seen: Seen<'_>) -> Option<Result<'a>> {
        Some(match self {
            Self::Number(number) => Result::Number(*number),
            Self::Truth(truth) => Result::Truth(*truth),
            Self::Word(word) => Result::Word(word),
            Self::Column(column) => match column.value(seen)? {
                Value::Number(number) => Result::Number(number),
                Value::Truth(truth) => Result::Truth(truth),
                Value::Word(word) => Result::Word(word),
            },
            Self::Sum(node, added) => match node.value(seen)? {
                Result::Number(number) => Result::Number(number + added),
                Result::Truth(_) | Result::Word(_) => return None,
            },
            Self::Compare(left, comparison, right) => Result::Truth(match (left.value(seen)?, right.value(seen)?) {
                (Result::Number(left), Result::Number(right)) => comparison.holds(&left, &right),
                (Result::Truth(left), Result::Truth(right)) => comparison.holds(&left, &right),
                (Result::Word(left), Result::Word(right)) => comparison.holds(&left, &right),
                _ => return None,
            }),
            Self::Not(node) => Result::Truth(!node.truth(seen)?),
            Self::And(left, right) => Result::Truth(match (left.truth(seen), right.truth(seen)) {
                (Some(false), _) | (_, Some(false)) => false,
                (left, right) => left? && right?,
            }),
            Self::Or(left, right) => Result::Truth(match (left.truth(seen), right.truth(seen)) {
                (Some(true), _) | (_, Some(true)) => true,
                (left, right) => left? || right?,
            }),
        })
    }
}

impl Column {
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Condition { place, .. } => super::columns::condition_kind(place),
            Self::Row(place) => ROW_COLUMNS.get(place).map(|column| column.kind),
        }
    }

    fn value(self, seen: Seen<'_>) -> Option<Value> {
        match self {
            Self::Condition { place, is_previous } => {
                let line = seen.conditions.len().checked_sub(1 + usize::from(is_previous))?;
                condition_value(seen.conditions, place, line)
            }
            Self::Row(place) => ROW_COLUMNS.get(place)?.value(seen.row?),
        }
    }

    /// Whether a row has no such thing.
    fn is_absent(self, row: RowOfStep<'_>) -> bool {
        match self {
            Self::Condition { .. } => false,
            Self::Row(place) => ROW_COLUMNS.get(place).is_some_and(|column| column.is_absent(row)),
        }
    }

    /// Its name, if it is one of steps.
    fn condition(self) -> Option<String> {
        let Self::Condition { place, is_previous } = self else { return None };
        let previous = if is_previous { super::table::PREVIOUS } else { "" };
        CONDITIONS.get(place).map(|condition| format!("{previous}{}", condition.name))
    }

    /// The column of that name.
    fn named(name: &str) -> Option<Self> {
        let (condition, is_previous) = match name.strip_prefix(super::table::PREVIOUS) {
            Some(name) => (name, true),
            None => (name, false),
        };
        if let Some(place) = CONDITIONS.iter().position(|known| known.name == condition) {
            return Some(Self::Condition { place, is_previous });
        }
        ROW_COLUMNS.iter().position(|column| column.name == name).map(Self::Row)
    }
}

#[cfg(test)]
mod tests;
