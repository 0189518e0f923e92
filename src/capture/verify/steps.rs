//! Checks of the step records of each sequence, in order.

use super::super::error::CaptureError;
use super::super::reader::{Location, PayloadKey};
use super::super::records::{LogitsTier, RowRecord, StepRecord};
use super::super::topic::Topic;
use super::Check;
use crate::types::SequenceId;

pub(super) fn check_steps(check: &mut Check<'_>) -> Result<(), CaptureError> {
    let reader = check.reader;
    check.payloads.sort();
    for sequence in reader.sequences() {
        let mut least_position = 0;
        for (_, location) in reader.step_locations(sequence) {
            let step: StepRecord = match reader.read(*location) {
                Ok(step) => step,
                Err(error @ CaptureError::Io { .. }) => return Err(error),
                // The pass over all messages tells of it.
                Err(_) => continue,
            };
            let mut wrong = contradictions(&step, reader.header().format_version);
            wrong.extend(population_contradictions(check, &step));
            if step.first_position < least_position {
                let at = step.first_position;
                wrong.push(format!("first_position {at} is before {least_position}, an earlier step's"));
            }
            if wrong.is_empty() {
                least_position = step.first_position;
            }
            for what in wrong {
                let finding = format!("step {} of request {sequence}: {what}", step.step);
                check.finding_about(*location, finding);
            }
            check_rows(check, sequence, &step);
        }
    }
    Ok(())
}

/// What of one record cannot be true together.
fn contradictions(step: &StepRecord, format_version: u32) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(draft) = step.drafts.iter().find(|draft| !(-1..=i64::from(u32::MAX)).contains(*draft)) {
        found.push(format!("draft {draft} is neither a token nor -1"));
    }
    if let Some(withheld) = &step.withheld {
        let places = (0_u32..).zip(&step.drafts).filter(|(_, draft)| **draft == -1).map(|(index, _)| index);
        let proposed = step.drafts_raw.as_ref().filter(|_| format_version > 1).map_or(0, Vec::len) as u32;
        if !places.chain(step.drafts.len() as u32..proposed).eq(withheld.iter().map(|withheld| withheld.index)) {
            found.push("`withheld` does not name each draft of -1 and each trimmed one once, in order".to_owned());
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

/// Rows that count another number of allowed tokens than their masks.
fn population_contradictions(check: &Check<'_>, step: &StepRecord) -> Vec<String> {
    let contradiction = |(index, row): (usize, &RowRecord)| {
        let (found, said) = ((*check.masks.get(&row.applied_mask?)?)?, row.mask_population?);
        (found != said).then(|| format!("row {index}: its mask allows {found} tokens, mask_population says {said}"))
    };
    step.rows.iter().enumerate().filter_map(contradiction).collect()
}

fn check_rows(check: &mut Check<'_>, sequence: SequenceId, step: &StepRecord) {
    let name = format!("step {} of request {sequence}", step.step);
    check.found.rows.rows += step.rows.len() as u64;
    let mut with_payload = 0;
    let masks_are_redacted = check.reader.header().redactions.iter().any(|redaction| redaction.field == "mask");
    for (index, row) in (0_u32..).zip(&step.rows) {
        let (request, choice) = (sequence.request.0, sequence.choice.0);
        let key = PayloadKey { step: step.step, request, choice, row: index };
        let payloads: Vec<(Location, Option<u64>)> =
            check.payloads.claim(key).iter().map(|payload| (payload.location, payload.checksum)).collect();
        with_payload += u64::from(!payloads.is_empty());
        for (location, _) in payloads.iter().skip(1) {
            let finding = format!("{name}, row {index}: {} `logits` messages", payloads.len());
            check.finding_about(*location, finding);
        }
        if let Some(statistics) = &row.statistics {
            check.found.rows.checksums += 1;
            if let Some((location, Some(checksum))) = payloads.first() {
                check.found.rows.compared += 1;
                if *checksum != statistics.checksum {
                    let expected = statistics.checksum;
                    let finding = format!(
                        "{name}, row {index}: the recorded row has checksum {checksum:016x}, its statistics say {expected:016x}"
                    );
                    check.finding_about(*location, finding);
                }
            }
        }
        let masks = [row.scheduler_mask, row.applied_mask].into_iter().flatten();
        for hash in masks.filter(|_| !masks_are_redacted) {
            if !check.masks.contains_key(&hash) {
                let hash = blake3::Hash::from_bytes(hash).to_hex();
                check.finding_unless_lost(Topic::Mask, None, format!("{name}, row {index}: mask {hash} is not here"));
            }
        }
    }
    check.found.rows.payloads += with_payload;
    let rows = step.rows.len() as u64;
    if with_payload < rows && check.reader.header().logits_tier != LogitsTier::Off {
        let finding = format!("{name}: {with_payload} of {rows} rows have a payload, and no loss record says why");
        check.finding_unless_lost(Topic::Logits, Some(step.step), finding);
    }
}
