//! Which operation went wrong first, and how: the requests are run again plainly, from the recorded tokens, and what each
//! row passed through is compared with what is recorded of it, operation by operation.

mod compare;
mod divergence;
mod how;
pub mod render;
mod standing;
mod suppose;
mod walk;

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

pub use self::divergence::{Agreement, Divergence, divergence};

use self::compare::Seen;
use self::standing::Standing;
use self::suppose::{Supposed, suppose};
use self::walk::Walk;
use crate::capture::records::{RowStatistics, StepRecord};
use crate::replay::forward::PlainModel;
use crate::replay::gaps::Gaps;
use crate::replay::recording::{Recording, RequestFault};
use crate::replay::{CheckName, Level, Preflight, PreflightError};

/// What is to be localized.
pub struct Job<'a> {
    /// Name of the capture, for errors.
    pub name: &'a str,
    /// The capture.
    pub recording: &'a dyn Recording,
    /// The model that was recorded.
    pub plain: &'a PlainModel<'a>,
    /// Only this request.
    pub request: Option<u64>,
    /// Only this step.
    pub step: Option<u64>,
    /// Called after each request.
    pub progress: &'a (dyn Fn() + Sync),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Localized {
    /// The earliest difference; `None` if nothing differs.
    pub difference: Option<Difference>,
    /// Rows that were compared; `None` with a difference, for how far the other requests had come by then is chance.
    pub rows: Option<u64>,
    /// What could not be compared, in words.
    pub missing: Vec<String>,
}

/// An operation that gave something else than the model does.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The request.
    pub request: u64,
    /// The client's id for it.
    pub client_id: Option<String>,
    /// The choice.
    pub choice: u32,
    /// What is recorded of the step.
    pub step: StepRecord,
    /// Index of the row in the step.
    pub row: u32,
    /// Position of the token that the row was computed after.
    pub position: u32,
    /// The layer, if the operation belongs to one.
    pub layer: Option<u32>,
    /// The operation: one of those that captures sketch, `head_input`, `logits`, or `statistics`.
    pub operation: String,
    /// How it is wrong.
    pub how: How,
    /// What the model gives.
    pub expected: Figures,
    /// What is recorded.
    pub found: Figures,
    /// How many sketched operations of the row after it differ, too; of the head input, whether the logits do.
    pub later: u64,
    /// How the operation is known.
    pub basis: Basis,
}

/// How it is known which operation differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// What is recorded of it differs, and what is recorded of those before it does not.
    Recorded,
    /// The row has no sketches. The step was run again as if this had been done to it, and every row came out bit for bit as
    /// it is recorded.
    Supposed {
        /// Rows of the step.
        rows: usize,
        /// What was supposed.
        words: String,
    },
}

/// How what was found is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// Zeros alone.
    Zeroed,
    /// NaN or an infinity.
    NonFinite,
    /// The recurrent state of another place: so many columns earlier, or later if negative.
    Stale {
        /// Columns.
        columns: i64,
    },
    /// What another row of the step should have, or the embedding of another token.
    ForeignRow(Origin),
    /// The row itself is right, and a number that is told of it is that of another row.
    NeighboursValue {
        /// Which number.
        statistic: &'static str,
        /// Whose it is.
        of: Origin,
    },
    /// The same but for rounding: no figure is off by more than [`DRIFT`].
    Drift {
        /// The greatest difference of a figure, relative to the norm of what the model gives.
        relative: f64,
    },
    /// Nothing of the above.
    Differs {
        /// Likewise; `None` where it is not finite.
        relative: Option<f64>,
    },
}

/// The greatest difference, relative to a vector's norm, that may be rounding: two roundings of bfloat16 and more.
pub const DRIFT: f64 = 0.01;

/// Where a foreign value belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// To another row of the step.
    Row {
        /// Of this request.
        request: u64,
        /// Of this choice.
        choice: u32,
        /// Index of the row in its step record.
        row: u32,
    },
    /// To another token of the vocabulary.
    Token(u32),
}

/// The figures of what an operation gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Figures {
    /// A sketch: the greatest absolute value, then the projections.
    Sketch(Vec<f32>),
    /// The statistics of a logits row.
    Row(RowStatistics),
}

impl How {
    /// In a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Zeroed => "zeroed",
            Self::NonFinite => "non-finite",
            Self::Stale { .. } => "stale",
            Self::ForeignRow(_) => "foreign-row",
            Self::NeighboursValue { .. } => "neighbours-value",
            Self::Drift { .. } => "drift",
            Self::Differs { .. } => "differs",
        }
    }
}

/// Why nothing could be localized.
#[derive(Debug, thiserror::Error)]
pub enum LocalizeError {
    /// The capture does not fit to the model.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The forward pass cannot be run here as it was there.
    #[error("{capture}: the model cannot be run again as it was recorded: {why}")]
    NotRepeatable {
        /// Name of the capture.
        capture: String,
        /// Why, in words.
        why: String,
    },
    /// There is no such step.
    #[error("{capture}: {whose} has no step {step}; see `stepscope dump`")]
    NoStep {
        /// Name of the capture.
        capture: String,
        /// The request, or the capture.
        whose: String,
        /// The step.
        step: u64,
    },
    /// A row differs, nothing says from which operation on, and it could not be found out.
    #[error(
        "{capture}: request {request}, step {step}, row {row} is not what the model gives; the capture has no sketches of \
         the row that would say which operation differs first, and nothing that was supposed of the step gives its rows as \
         they are recorded: record it with `stepscope record --sketches on`"
    )]
    NotSketched {
        /// Name of the capture.
        capture: String,
        /// The request.
        request: u64,
        /// The step.
        step: u64,
        /// Index of the row in the step.
        row: u32,
    },
}

/// Runs the requests again, in parallel on the current rayon pool, each up to its first difference or the earliest that is
/// known by then, and tells how the earliest is wrong.
///
/// # Errors
/// If the capture was recorded with another model, or the forward pass cannot be repeated; if there is no such step; or if a
/// row differs and nothing says from which operation on.
pub fn localize(job: &Job<'_>) -> Result<Localized, LocalizeError> {
    check_repeatable(job)?;
    let gaps = Gaps::alone(job.recording);
    let requests: Vec<u64> = match job.request {
        Some(request) => vec![request],
        None => job.recording.requests(),
    };
    let earliest = AtomicU64::new(u64::MAX);
    let follow_one = |&request: &u64| {
        let followed = follow(job, request, &gaps, &earliest);
        (job.progress)();
        followed
    };
    let followed = requests.par_iter().map(follow_one).reduce(Followed::default, Followed::merge);
    let at = followed.found.as_ref().map(|found| found.step);
    if job.step.is_some() && !followed.has_step && !gaps.records {
        let whose = job.request.map_or("the capture".to_owned(), |request| format!("request {request}"));
        let step = job.step.unwrap_or_default();
        return Err(LocalizeError::NoStep { capture: job.name.to_owned(), whose, step });
    }
    let mut missing: Vec<String> = if gaps.records { gaps.in_words.clone() } else { Vec::new() };
    // How far the others had come by then is chance.
    missing
        .extend(followed.missing.into_iter().filter(|(step, _)| at.is_none_or(|at| *step <= at)).map(|(_, why)| why));
    let difference = followed.found.map(|found| judge(job, &gaps, found)).transpose()?;
    if followed.rows == 0 && missing.is_empty() {
        missing.push("there is no row to compare".to_owned());
    }
    let rows = difference.is_none().then_some(followed.rows);
    Ok(Localized { difference, rows, missing })
}

fn check_repeatable(job: &Job<'_>) -> Result<(), LocalizeError> {
    let preflight = Preflight::new(job.name, job.recording.header(), Some(job.plain.model()), "")?;
    let forward = preflight.guarantees.iter().find(|guarantee| guarantee.check == CheckName::Forward);
    match forward {
        Some(guarantee) if guarantee.level == Level::Exact => Ok(()),
        other => Err(LocalizeError::NotRepeatable {
            capture: job.name.to_owned(),
            why: other.map_or(String::new(), |guarantee| guarantee.why.clone()),
        }),
    }
}

/// The first difference of a sequence.
struct Found {
    request: u64,
    choice: u32,
    step: u64,
    row: u32,
    seen: Seen,
}

/// What came of following requests.
#[derive(Default)]
struct Followed {
    found: Option<Found>,
    rows: u64,
    /// Whether any has the step that was asked for.
    has_step: bool,
    /// By step: 0 for what belongs to none.
    missing: Vec<(u64, String)>,
}

impl Followed {
    fn merge(mut self, other: Self) -> Self {
        let place = |found: &Found| (found.step, found.request, found.choice, found.row);
        self.found = [self.found, other.found].into_iter().flatten().min_by_key(place);
        self.rows += other.rows;
        self.has_step |= other.has_step;
        self.missing.extend(other.missing);
        self
    }
}

fn follow(job: &Job<'_>, request: u64, gaps: &Gaps, earliest: &AtomicU64) -> Followed {
    let mut followed = Followed::default();
    let recorded = match job.recording.request(request) {
        Ok(recorded) => recorded,
        Err(RequestFault::Refused { .. }) => return followed,
        Err(fault) => {
            followed.missing.push((0, format!("request {request}: {fault}")));
            return followed;
        }
    };
    let mut prompt_memory = None;
    for sequence in &recorded.sequences {
        if job.step.is_some_and(|wanted| !sequence.steps.iter().any(|step| step.step == wanted)) {
            continue;
        }
        followed.has_step |= job.step.is_some();
        match Walk::start(job.plain, &recorded.admission, sequence, gaps, &mut prompt_memory) {
            Ok(walk) => follow_sequence(job, walk, earliest, &mut followed),
            Err(why) => followed.missing.push((0, why)),
        }
    }
    followed
}

/// Goes on to the first difference, or past the earliest step that is known to have one.
fn follow_sequence(job: &Job<'_>, mut walk: Walk<'_>, earliest: &AtomicU64, followed: &mut Followed) {
    let (request, choice) = (walk.request(), walk.choice());
    if let Some(why) = walk.not_joined() {
        followed.missing.push((0, why));
    }
    while let Some(step) = walk.step() {
        if step.step > earliest.load(Ordering::Relaxed) || job.step.is_some_and(|wanted| step.step > wanted) {
            return;
        }
        if job.step.is_none_or(|wanted| step.step == wanted) {
            for (row, record) in (0..).zip(&step.rows) {
                let place = format!("request {request}, choice {choice}, step {}, row {row}", step.step);
                let mut tell = |why: String| followed.missing.push((step.step, format!("{place}: {why}")));
                // The rows after one that cannot be run follow it.
                let run = match walk.run(row, None) {
                    Ok(run) => run,
                    Err(why) => {
                        tell(why);
                        break;
                    }
                };
                match compare::compare(job, walk.row_id(row), record, &run, &mut tell) {
                    Err(why) => tell(why),
                    Ok(None) => followed.rows += 1,
                    Ok(Some(seen)) => {
                        followed.rows += 1;
                        earliest.fetch_min(step.step, Ordering::Relaxed);
                        let found = Found { request, choice, step: step.step, row, seen };
                        let found = Followed { found: Some(found), ..Followed::default() };
                        *followed = std::mem::take(followed).merge(found);
                        return;
                    }
                }
            }
        } else {
            walk.run_silently();
        }
        walk.commit();
    }
}

/// How the difference is wrong: its sequence is run again to the step, and its neighbours with it if need be.
fn judge(job: &Job<'_>, gaps: &Gaps, mut found: Found) -> Result<Difference, LocalizeError> {
    let unknown = || LocalizeError::NotSketched {
        capture: job.name.to_owned(),
        request: found.request,
        step: found.step,
        row: found.row,
    };
    let recorded = job.recording.request(found.request).map_err(|_| unknown())?;
    let standing = Standing::at(job.plain, gaps, &recorded, found.choice, found.step).ok_or_else(unknown)?;
    let mut basis = Basis::Recorded;
    if !found.seen.is_first {
        let Supposed { seen, rows, words } = suppose(job, &standing, &found).ok_or_else(unknown)?;
        basis = Basis::Supposed { rows, words };
        found.seen = seen;
    }
    let how = how::how(job, gaps, &standing, &found).ok_or_else(unknown)?;
    let Standing { admission, step, .. } = standing;
    let Seen { layer, operation, expected, found: recorded, later, .. } = found.seen;
    Ok(Difference {
        request: found.request,
        client_id: admission.client_id.clone(),
        choice: found.choice,
        position: step.rows.get(found.row as usize).map_or(0, |row| row.position),
        step,
        row: found.row,
        layer,
        operation,
        how,
        expected,
        found: recorded,
        later,
        basis,
    })
}
