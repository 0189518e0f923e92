//! Which steps are not what the model gives, each judged by itself: every one is run again from the recorded tokens,
//! those after the first that differs, too.

use std::collections::HashMap;

use rayon::prelude::*;

use super::compare::compare;
use super::walk::Walk;
use super::{Job, LocalizeError, check_repeatable};
use crate::replay::gaps::Gaps;
use crate::replay::recording::RequestFault;

/// Whether steps differ from a clean execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// By request, choice and step: whether a row of it differs; `None` if none is known to, and some could not be compared.
    pub steps: HashMap<(u64, u32, u64), Option<bool>>,
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
                    divergence.steps.insert((request, sequence.choice, step.step), differs(job, &mut walk));
                    walk.commit();
                }
            }
            Err(why) => divergence.missing.push(why),
        }
    }
    divergence
}

/// Whether a row of the walk's step differs.
fn differs(job: &Job<'_>, walk: &mut Walk<'_>) -> Option<bool> {
    let step = walk.step()?;
    let mut all_known = !step.rows.is_empty();
    let mut differs = false;
    for (row, record) in (0..).zip(&step.rows) {
        // The rows after one that cannot be run follow it.
        let Ok(run) = walk.run(row, None) else {
            all_known = false;
            break;
        };
        match compare(job, walk.row_id(row), record, &run, &mut |_| {}) {
            Ok(seen) => differs |= seen.is_some(),
            Err(_) => all_known = false,
        }
    }
    (differs || all_known).then_some(differs)
}
