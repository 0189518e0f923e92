//! Which steps are not what the model gives, each judged by itself: every one is run again from the recorded tokens,
//! those after the first that differs, too.

use std::collections::HashMap;

use rayon::prelude::*;

use super::compare::compare;
use super::walk::Walk;
use super::{Job, LocalizeError, check_repeatable};
use crate::capture::records::StepRecord;
use crate::replay::gaps::Gaps;
use crate::replay::recording::RequestFault;

/// What a clean execution says of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The step has no rows: it read a part of the prompt.
    NoRows,
    /// Every row is what the model gives.
    Same,
    /// A row is not.
    Differs,
    /// No row is known to differ, and some could not be compared.
    NotKnown,
}

/// Whether steps differ from a clean execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// By request, choice and step; one that could not be run is not among them.
    pub steps: HashMap<(u64, u32, u64), Agreement>,
    /// What could not be run at all, in words.
    pub missing: Vec<String>,
}

impl Divergence {
    fn merge(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self.missing.extend(other.missing);
        self
    }
}

/// Runs every request of the capture again, in parallel on the current rayon pool. The request and the step that the job names
/// are not looked at.
///
/// # Errors
/// If the capture was recorded with another model, or the forward pass cannot be repeated.
pub fn divergence(job: &Job<'_>) -> Result<Divergence, LocalizeError> {
    check_repeatable(job)?;
    let gaps = Gaps::alone(job.recording);
    let of_one = |&request: &u64| {
        let divergence = of_request(job, request, &gaps);
        (job.progress)();
        divergence
    };
    Ok(job.recording.requests().par_iter().map(of_one).reduce(Divergence::default, Divergence::merge))
}

fn of_request(job: &Job<'_>, request: u64, gaps: &Gaps) -> Divergence {
    let mut divergence = Divergence::default();
    let recorded = match job.recording.request(request) {
        Ok(recorded) => recorded,
        Err(RequestFault::Refused { .. }) => return divergence,
        Err(fault) => {
            divergence.missing.push(format!("request {request}: {fault}"));
            return divergence;
        }
    };
    let mut prompt_memory = None;
    for sequence in &recorded.sequences {
        match Walk::start(job.plain, &recorded.admission, sequence, gaps, &mut prompt_memory) {
            Ok(mut walk) => {
                divergence.missing.extend(walk.not_joined());
                while let Some(step) = walk.step() {
                    divergence.steps.insert((request, sequence.choice, step.step), agreement(job, &mut walk, step));
                    walk.commit();
                }
            }
            Err(why) => divergence.missing.push(why),
        }
    }
    divergence
}

/// Runs the rows of the walk's step.
fn agreement(job: &Job<'_>, walk: &mut Walk<'_>, step: &StepRecord) -> Agreement {
    let mut agreement = if step.rows.is_empty() { Agreement::NoRows } else { Agreement::Same };
    for (row, record) in (0..).zip(&step.rows) {
        // The rows after one that cannot be run follow it.
        let Ok(run) = walk.run(row, None) else { return Agreement::NotKnown };
        match compare(job, walk.row_id(row), record, &run, &mut |_| {}) {
            Ok(Some(_)) => return Agreement::Differs,
            Ok(None) => {}
            Err(_) => agreement = Agreement::NotKnown,
        }
    }
    agreement
}
