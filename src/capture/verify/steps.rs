//! Checks of the step records of each sequence, in order.

use super::super::error::CaptureError;
use super::super::records::{LogitsTier, RowRecord, StepRecord};
use super::super::topic::Topic;
use super::Check;
use crate::types::SequenceId;

pub(super) fn check_steps(check: &mut Check<'_>) -> Result<(), CaptureError> {
    let reader = check.reader;
    for sequence in reader.sequences() {
        let mut least_position = 0;
        for step in reader.steps(sequence) {
            let step = match step {
                Ok(step) => step,
                Err(error @ CaptureError::Io { .. }) => return Err(error),
                Err(error) => {
                    check.unreadable(&error);
                    continue;
                }
            };
            let mut wrong = |what: String| check.finding(format!("step {} of request {sequence}: {what}", step.step));
            if step.first_position < least_position {
                wrong(format!("first_position {} is before {least_position}, an earlier step's", step.first_position));
            }
            least_position = step.first_position;
            for what in contradictions(&step) {
                wrong(what);
            }
            check_rows(check, sequence, &step);
        }
    }
    Ok(())
}

/// What of one record cannot be true together.
fn contradictions(step: &StepRecord) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(draft) = step.drafts.iter().find(|draft| !(-1..=i64::from(u32::MAX)).contains(*draft)) {
        found.push(format!("draft {draft} is neither a token nor -1"));
    }
    if let Some(withheld) = &step.withheld {
        let places = (0_u32..).zip(&step.drafts).filter(|(_, draft)| **draft == -1).map(|(index, _)| index);
        if !places.eq(withheld.iter().map(|withheld| withheld.index)) {
            found.push("`withheld` does not name each draft of -1 once, in order".to_owned());
        }
    }
    if step.verdicts.as_ref().is_some_and(|verdicts| verdicts.len() != step.drafts.len()) {
        found.push("`verdicts` has not one entry per draft".to_owned());
    }
    if let Some(q_len) = step.q_len {
        let end = u64::from(step.first_position) + u64::from(q_len);
        let outside = |row: &&RowRecord| !(u64::from(step.first_position)..end).contains(&u64::from(row.position));
        if let Some(row) = step.rows.iter().find(outside) {
            found.push(format!("a row at position {} of a step over {} to {end}", row.position, step.first_position));
        }
    }
    found
}

fn check_rows(check: &mut Check<'_>, sequence: SequenceId, step: &StepRecord) {
    let (request, choice) = (sequence.request.0, sequence.choice.0);
    let payloads = check.payloads.of(step.step, request, choice);
    let rows = step.rows.len() as u32;
    check.found.rows.rows += u64::from(rows);
    check.found.rows.payloads += u64::from(payloads.min(rows));
    let name = format!("step {} of request {sequence}", step.step);
    if payloads > rows {
        check.finding(format!("{name}: {payloads} `logits` messages for {rows} rows"));
    }
    if payloads < rows && check.reader.header().logits_tier != LogitsTier::Off {
        let finding = format!("{name}: {payloads} `logits` messages for {rows} rows, and no loss record says why");
        check.finding_unless_lost(Topic::Logits, Some(step.step), finding);
    }
    for (index, row) in (0_u32..).zip(&step.rows) {
        if let Some(statistics) = &row.statistics {
            check.found.rows.checksums += 1;
            if let Some(checksum) = check.payloads.checksums.get(&(step.step, request, choice, index)).copied() {
                check.found.rows.compared += 1;
                if checksum != statistics.checksum {
                    let expected = statistics.checksum;
                    check.finding(format!(
                        "{name}, row {index}: the recorded row has checksum {checksum:016x}, its statistics say {expected:016x}"
                    ));
                }
            }
        }
        for hash in [row.scheduler_mask, row.applied_mask].into_iter().flatten() {
            if !check.masks.contains_key(&hash) {
                let hash = blake3::Hash::from_bytes(hash).to_hex();
                check.finding_unless_lost(Topic::Mask, None, format!("{name}, row {index}: mask {hash} is not here"));
            }
        }
        let population = row.applied_mask.and_then(|hash| check.masks.get(&hash).copied());
        if let (Some(found), Some(said)) = (population, row.mask_population)
            && found != said
        {
            check.finding(format!("{name}, row {index}: its mask allows {found} tokens, mask_population says {said}"));
        }
    }
}
