//! Whether the steps of a choice join up: what was committed before a step is known only as far as they do.

use crate::capture::records::StepRecord;

/// How many steps join up from the choice's beginning, where steps may be missing: up to the first that begins past the
/// positions which the ones before it have read.
pub(crate) fn joined(steps: &[StepRecord], prompt: usize) -> usize {
    let joins = |(before, step): &(Option<&StepRecord>, &StepRecord)| {
        let read = before.map_or(Some(0), |before| read_by(before, prompt));
        let most = read.zip(cached_prefix(step, *before, prompt)).map(|(read, cached)| read + cached);
        most.is_some_and(|most| step.first_position as usize <= most)
    };
    std::iter::once(None).chain(steps.iter().map(Some)).zip(steps).take_while(joins).count()
}

/// Positions that were taken from the prefix cache; `None` if that is not known. A step that goes on from one `before` it
/// and does not read the prompt takes none.
pub(super) fn cached_prefix(step: &StepRecord, before: Option<&StepRecord>, prompt: usize) -> Option<usize> {
    let none = || (before.is_some() && !is_prefill(step, prompt)).then_some(0);
    step.cached_prefix.map(|cached| cached as usize).or_else(none)
}

/// Positions that the model has read by the end of a step, and that were not taken back; `None` where that is not
/// recorded.
pub(super) fn read_by(step: &StepRecord, prompt: usize) -> Option<usize> {
    let first = step.first_position as usize;
    if !is_prefill(step, prompt) {
        Some(first + step.emitted.len())
    } else if ends_prompt(step, prompt) {
        Some(prompt)
    } else {
        step.q_len.map(|length| first + length as usize)
    }
}

/// Whether the step reads the prompt: it starts before the prompt's end.
pub(crate) fn is_prefill(step: &StepRecord, prompt: usize) -> bool {
    (step.first_position as usize) < prompt
}

/// Whether a chunk of the prompt is its last: by its length, or where that is not recorded by the token that came.
pub(super) fn ends_prompt(step: &StepRecord, prompt: usize) -> bool {
    match step.q_len {
        Some(length) => step.first_position as usize + length as usize >= prompt,
        None => !step.emitted.is_empty(),
    }
}
