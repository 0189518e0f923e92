//! Records of older captures, with what today's format demands of them.

use super::super::reader::CaptureReader;
use super::super::records::{ForcedToken, RowRecord, StepRecord};
use super::super::topic::Record;

/// A record of a capture of format `from`, as the newest has it.
pub(super) fn upgraded(record: Record, from: u32, reader: &CaptureReader) -> Record {
    match record {
        Record::Step(mut step) if from == 1 => {
            if reader.header().sampler_semantics == "stepscope" {
                undrafted(&mut step);
            }
            step.rows.iter_mut().for_each(|row| forced(row, reader));
            Record::Step(step)
        }
        record => record,
    }
}

/// Stepscope's own engine did not draft then, and said nothing of it; since version 2 it says that there was nothing.
fn undrafted(step: &mut StepRecord) {
    let reads_prompt = step.path == Some(super::super::records::StepPath::Prefill);
    if !reads_prompt && step.drafts.is_empty() {
        step.drafts_raw.get_or_insert_default();
        step.withheld.get_or_insert_default();
        step.verdicts.get_or_insert_default();
    }
}

/// Since version 2 a row whose mask allows one token says which.
fn forced(row: &mut RowRecord, reader: &CaptureReader) {
    let Some(mask) = row.scheduler_mask.and_then(|hash| reader.mask(&hash).ok().flatten()) else { return };
    let population: u32 = mask.bits.iter().map(|byte| byte.count_ones()).sum();
    let found = mask.bits.iter().zip(0_u32..).find(|(byte, _)| **byte != 0).filter(|_| population == 1);
    if let Some((byte, index)) = found {
        let token = index * 8 + byte.trailing_zeros();
        row.forced.get_or_insert(ForcedToken { token, rank: None, margin: None });
    }
}
