//! Predicates: what can be said of a unit by its columns, and of which units it is true.

use std::fmt;

use super::bits::Bits;
use super::table::{Cells, Table, TableColumn};
use crate::capture::conditions::Unit;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// A predicate over the columns of a table, which it names by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// A truth, or its opposite.
    Truth {
        /// The column.
        column: usize,
        /// Whether it is the opposite.
        is_negated: bool,
    },
    /// A word, or any other one.
    Word {
        /// The column.
        column: usize,
        /// Index of the word.
        word: u8,
        /// Whether it is any other one.
        is_negated: bool,
    },
    /// A number against a constant.
    Constant {
        /// The column.
        column: usize,
        /// How they compare.
        comparison: Comparison,
        /// The constant.
        value: i64,
    },
    /// Two numbers of one unit.
    Pair {
        /// The column on the left.
        left: usize,
        /// How they compare.
        comparison: Comparison,
        /// The column on the right.
        right: usize,
        /// What is added to the right one.
        offset: i64,
    },
}

/// Of which units a predicate is true, and of which it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// True of these.
    pub holds: Bits,
    /// Known of these; it is known wherever it is true.
    pub known: Bits,
}

/// Columns with more different values than this are compared with quantiles.
const FEW_VALUES: usize = 16;
/// Quantiles that they are compared with: the borders between ten parts.
const PARTS: usize = 10;
/// Values that quantiles are taken of, evenly spread over the column.
const SAMPLE: usize = 1 << 16;

impl Comparison {
    /// Its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    /// Whether it holds of two values in their order; not where they have none.
    pub fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }

    /// Where it holds of numbers. Each comparison has a loop of its own.
    fn of(self, length: usize, left: impl Fn(usize) -> i64, right: impl Fn(usize) -> i64) -> Bits {
        match self {
            Self::Equal => Bits::from_fn(length, |index| left(index) == right(index)),
            Self::Unequal => Bits::from_fn(length, |index| left(index) != right(index)),
            Self::Less => Bits::from_fn(length, |index| left(index) < right(index)),
            Self::AtMost => Bits::from_fn(length, |index| left(index) <= right(index)),
            Self::Greater => Bits::from_fn(length, |index| left(index) > right(index)),
            Self::AtLeast => Bits::from_fn(length, |index| left(index) >= right(index)),
        }
    }
}

impl Predicate {
    /// Every predicate of a table's engine state, the simplest first. They are grouped by family: truths and words, numbers
    /// against constants, pairs of one unit, pairs that differ by one; each of this step, and of the one before.
    pub fn all(table: &Table) -> Vec<Self> {
        let columns: Vec<(usize, &TableColumn)> =
            table.columns.iter().enumerate().filter(|(_, column)| column.is_state()).collect();
        let mut predicates = Vec::new();
        for &(index, column) in &columns {
            match &column.cells {
                Cells::Truth(_) => {
                    predicates.extend([false, true].map(|is_negated| Self::Truth { column: index, is_negated }));
                }
                Cells::Word(_, words) => {
                    let words = (0..words.len()).filter_map(|word| u8::try_from(word).ok());
                    let both = |word| [false, true].map(|is_negated| Self::Word { column: index, word, is_negated });
                    predicates.extend(words.flat_map(both));
                }
                Cells::Number(values) => {
                    if column.condition.unit != Unit::Id {
                        predicates.extend(against_constants(index, values, &column.known));
                    }
                }
            }
        }
        for (place, &(left, left_column)) in columns.iter().enumerate() {
            for &(right, right_column) in columns.iter().skip(place + 1) {
                let are_numbers =
                    [left_column, right_column].iter().all(|column| matches!(column.cells, Cells::Number(_)));
                if are_numbers && Table::are_of_one_unit(left_column, right_column) {
                    predicates.extend(pairs(left, left_column, right, right_column));
                }
            }
        }
        predicates.sort_by_cached_key(|predicate| predicate.cost(table));
        predicates
    }

    /// What makes it more or less simple, for an order: how much there is to it, then how late its columns are declared (a count
    /// comes before what is made of it), then how long it is.
    pub fn cost(&self, table: &Table) -> (u32, usize) {
        let lag = |column: usize| table.columns.get(column).map_or(0, |column| 4 * u32::from(column.is_previous));
        let of_comparison = |comparison: Comparison| match comparison {
            Comparison::Equal | Comparison::Less | Comparison::Greater => 0,
            Comparison::Unequal | Comparison::AtMost | Comparison::AtLeast => 1,
        };
        let cost = match *self {
            Self::Truth { column, is_negated } | Self::Word { column, is_negated, .. } => {
                4 + lag(column) + u32::from(is_negated)
            }
            // A constant of which there is a choice says more than two columns do.
            Self::Constant { column, comparison, value } => {
                8 + lag(column) + 4 * u32::from(value != 0) + of_comparison(comparison)
            }
            Self::Pair { left, comparison, right, offset } => {
                8 + lag(left) + lag(right) + 4 * u32::from(offset != 0) + of_comparison(comparison)
            }
        };
        let latest = match *self {
            Self::Truth { column, .. } | Self::Word { column, .. } | Self::Constant { column, .. } => column,
            Self::Pair { left, right, .. } => left.max(right),
        };
        (cost, latest * 1000 + self.text(table).len())
    }

    /// It, in words that are an expression.
    pub fn text(&self, table: &Table) -> String {
        let name = |column: usize| table.columns.get(column).map_or_else(String::new, TableColumn::name);
        match *self {
            Self::Truth { column, is_negated } => format!("{}{}", if is_negated { "not " } else { "" }, name(column)),
            Self::Word { column, word, is_negated } => {
                let words = table.columns.get(column).map(|column| &column.cells);
                let word = match words {
                    Some(Cells::Word(_, words)) => words.get(usize::from(word)).copied().unwrap_or(""),
                    Some(Cells::Number(_) | Cells::Truth(_)) | None => "",
                };
                format!("{} {} {word}", name(column), if is_negated { "!=" } else { "==" })
            }
            Self::Constant { column, comparison, value } => format!("{} {} {value}", name(column), comparison.sign()),
            Self::Pair { left, comparison, right, offset } => {
                let added = Offset(offset);
                format!("{} {} {}{added}", name(left), comparison.sign(), name(right))
            }
        }
    }

    /// Of which units it is true: of a step by its columns, of a sequence where it is true of a step.
    pub fn truth(&self, table: &Table) -> Truth {
        let of_steps = self.of_steps(table);
        let Some(units) = &table.steps else { return of_steps };
        let holds: Bits = units.iter().map(|steps| of_steps.holds.any_in(steps)).collect();
        let all_known: Bits = units.iter().map(|steps| of_steps.known.count_in(steps) == steps.len() as u64).collect();
        Truth { known: holds.or(&all_known), holds }
    }

    fn of_steps(&self, table: &Table) -> Truth {
        let column = |index: usize| table.columns.get(index).map(|column| (&column.cells, &column.known));
        let of_one = |index: usize, holds: &dyn Fn(&Cells) -> Bits| {
            column(index).map(|(cells, known)| Truth { holds: holds(cells).and(known), known: known.clone() })
        };
        let truth = match *self {
            Self::Truth { column: index, is_negated } => of_one(index, &|cells| match cells {
                Cells::Truth(truths) if is_negated => Bits::all(truths.len()).without(truths),
                Cells::Truth(truths) => truths.clone(),
                Cells::Number(_) | Cells::Word(..) => Bits::default(),
            }),
            Self::Word { column: index, word, is_negated } => of_one(index, &|cells| match cells {
                Cells::Word(codes, _) => codes.iter().map(|code| (*code == word) != is_negated).collect(),
                Cells::Number(_) | Cells::Truth(_) => Bits::default(),
            }),
            Self::Constant { column: index, comparison, value } => of_one(index, &|cells| match cells {
                Cells::Number(numbers) => comparison.of(numbers.len(), |index| number(numbers, index), |_| value),
                Cells::Truth(_) | Cells::Word(..) => Bits::default(),
            }),
            Self::Pair { left, comparison, right, offset } => match (column(left), column(right)) {
                (Some((Cells::Number(left), left_known)), Some((Cells::Number(right), right_known))) => {
                    let known = left_known.and(right_known);
                    let right = |index| number(right, index).saturating_add(offset);
                    let holds = comparison.of(left.len(), |index| number(left, index), right);
                    Some(Truth { holds: holds.and(&known), known })
                }
                _ => None,
            },
        };
        truth.unwrap_or(Truth { holds: Bits::default(), known: Bits::default() })
    }
}

fn number(numbers: &[i64], index: usize) -> i64 {
    numbers.get(index).copied().unwrap_or(0)
}

impl Truth {
    /// Both: known to be false where one of them is.
    pub fn and(&self, other: &Self) -> Self {
        let known_false = |truth: &Self| truth.known.without(&truth.holds);
        let known = self.known.and(&other.known).or(&known_false(self)).or(&known_false(other));
        Self { holds: self.holds.and(&other.holds), known }
    }
}

/// What is added to a column, unless it is nothing.
struct Offset(i64);

impl fmt::Display for Offset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more @ 1.. => write!(formatter, " + {more}"),
            less => write!(formatter, " - {}", less.unsigned_abs()),
        }
    }
}

/// A column against each of its values where they are few, and else against quantiles, 0 and 1.
fn against_constants(column: usize, values: &[i64], known: &Bits) -> Vec<Predicate> {
    use Comparison::{AtMost, Equal, Greater, Unequal};
    let mut few = Vec::new();
    for index in known.iter() {
        let value = number(values, index);
        if !few.contains(&value) {
            few.push(value);
            if few.len() > FEW_VALUES {
                break;
            }
        }
    }
    let is_few = few.len() <= FEW_VALUES;
    let mut constants = if is_few { few } else { quantiles(values, known) };
    if !is_few {
        constants.extend([0, 1]);
    }
    constants.sort_unstable();
    constants.dedup();
    let of_each =
        |value| [Equal, Unequal, Greater, AtMost].map(|comparison| Predicate::Constant { column, comparison, value });
    constants.into_iter().flat_map(of_each).collect()
}

/// The borders between [`PARTS`] parts as large as each other.
fn quantiles(values: &[i64], known: &Bits) -> Vec<i64> {
    let stride = known.count().div_ceil(SAMPLE as u64).max(1) as usize;
    let mut sample: Vec<i64> = known.iter().step_by(stride).map(|index| number(values, index)).collect();
    sample.sort_unstable();
    (1..PARTS).filter_map(|part| sample.get(sample.len() * part / PARTS).copied()).collect()
}

/// Two columns in every order, and differing by one. Where one of them is of the step before, it stands on the right.
fn pairs(left: usize, left_column: &TableColumn, right: usize, right_column: &TableColumn) -> Vec<Predicate> {
    use Comparison::{AtLeast, AtMost, Equal, Greater, Less, Unequal};
    let pair = |left, comparison, right, offset| Predicate::Pair { left, comparison, right, offset };
    let mut pairs = vec![pair(left, Equal, right, 0), pair(left, Unequal, right, 0)];
    let is_lagged = left_column.is_previous != right_column.is_previous;
    if is_lagged {
        pairs.extend([pair(left, Equal, right, 1), pair(left, Equal, right, -1)]);
    } else {
        pairs.extend([pair(left, Equal, right, 1), pair(right, Equal, left, 1)]);
    }
    if left_column.condition.unit == Unit::Id {
        return pairs;
    }
    if is_lagged {
        pairs.extend([Less, AtMost, Greater, AtLeast].map(|comparison| pair(left, comparison, right, 0)));
    } else {
        pairs.extend([Greater, AtLeast].map(|comparison| pair(left, comparison, right, 0)));
        pairs.extend([Greater, AtLeast].map(|comparison| pair(right, comparison, left, 0)));
    }
    pairs
}
