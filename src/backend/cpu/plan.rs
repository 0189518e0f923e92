//! A step's batch, checked and flattened into one row per token.

use std::collections::HashMap;
use std::ops::Range;

use super::state::ConvolutionState;
use crate::arith::ATTENTION_CHUNK;
use crate::backend::{BackendError, BatchEntry, StepBatch};
use crate::types::{PageId, TokenId};

/// A checked batch: every rule of [`crate::backend::Backend`] that memory safety or isolation rests on holds.
#[derive(Debug)]
pub(super) struct RowPlan<'a> {
    /// In batch order.
    pub entries: Vec<PlannedEntry<'a>>,
    /// One per token, entries one after the other.
    pub rows: Vec<Row>,
    /// Rows whose logits are wanted.
    pub wanted: Vec<usize>,
}

/// An entry and where its tokens stand among the rows.
#[derive(Debug)]
pub(super) struct PlannedEntry<'a> {
    pub entry: &'a BatchEntry,
    pub rows: Range<usize>,
}

/// One token of the step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Index into [`RowPlan::entries`].
    pub entry: usize,
    pub token: TokenId,
    /// Absolute position in its sequence.
    pub position: usize,
}

/// What a batch may use.
pub(super) struct Limits<'a> {
    pub vocabulary_size: usize,
    pub pages: usize,
    pub drafts: usize,
    pub state: &'a ConvolutionState,
}

/// Checks `batch` against `limits` and lays its rows out.
pub(super) fn plan<'a>(batch: &'a StepBatch, limits: &Limits<'_>) -> Result<RowPlan<'a>, BackendError> {
    let mut plan = RowPlan { entries: Vec::with_capacity(batch.entries.len()), rows: Vec::new(), wanted: Vec::new() };
    for (index, entry) in batch.entries.iter().enumerate() {
        check_tokens(entry, limits)
            .and_then(|()| check_pages(entry, limits))
            .and_then(|()| check_state(entry, limits))
            .map_err(|message| BackendError::Entry { entry: index, message })?;
        let start = plan.rows.len();
        let first = entry.first_position.index();
        let rows = entry.tokens.iter().enumerate();
        plan.rows.extend(rows.map(|(offset, &token)| Row { entry: index, token, position: first + offset }));
        plan.wanted.extend(start + entry.logits_from..plan.rows.len());
        plan.entries.push(PlannedEntry { entry, rows: start..plan.rows.len() });
    }
    check_isolation(batch)?;
    Ok(plan)
}

fn check_tokens(entry: &BatchEntry, limits: &Limits<'_>) -> Result<(), String> {
    let length = entry.tokens.len();
    if length == 0 {
        return Err("it has no tokens; an entry is at least one".to_owned());
    }
    if let Some(token) = entry.tokens.iter().find(|token| token.index() >= limits.vocabulary_size) {
        return Err(format!("token {token} is not below the vocabulary size {}", limits.vocabulary_size));
    }
    if !entry.prefill && length - 1 > limits.drafts {
        return Err(format!("{length} tokens outside prefill; one and up to {} drafts fit", limits.drafts));
    }
    if entry.logits_from > length {
        return Err(format!("logits from token {} of {length} asked for", entry.logits_from));
    }
    Ok(())
}

fn check_pages(entry: &BatchEntry, limits: &Limits<'_>) -> Result<(), String> {
    let end = entry.first_position.index() + entry.tokens.len();
    if u32::try_from(end).is_err() {
        return Err(format!("it ends at position {end}, past the greatest position {}", u32::MAX));
    }
    let needed = end.div_ceil(ATTENTION_CHUNK);
    if entry.pages.len() < needed {
        return Err(format!("{} pages given, positions 0 to {} need {needed}", entry.pages.len(), end - 1));
    }
    match entry.pages.iter().find(|page| page.0 as usize >= limits.pages) {
        Some(page) => Err(format!("page {page} asked for, there are {}", limits.pages)),
        None => Ok(()),
    }
}

fn check_state(entry: &BatchEntry, limits: &Limits<'_>) -> Result<(), String> {
    let (state, snapshots) = (limits.state, &entry.snapshots);
    match entry.state {
        Some(access) => state.check_access(access).map_err(|error| error.to_string())?,
        None if state.exists() => {
            return Err("it names no state slot, but the model has recurrent layers".to_owned());
        }
        None => {}
    }
    if !entry.prefill && !snapshots.is_empty() {
        return Err("snapshots are taken in prefill only; use `save_state` after a step".to_owned());
    }
    let first = entry.first_position.index();
    let legal = first + 1..=first + entry.tokens.len();
    for &(position, snapshot) in snapshots {
        state.check_snapshot(snapshot).map_err(|error| error.to_string())?;
        if !legal.contains(&position.index()) {
            return Err(format!(
                "a snapshot at position {position} asked for, the chunk passes {} to {}",
                legal.start(),
                legal.end()
            ));
        }
    }
    Ok(())
}

/// What one entry writes no other entry uses, and no entry uses it twice.
fn check_isolation(batch: &StepBatch) -> Result<(), BackendError> {
    let mut writers: HashMap<PageId, (usize, usize)> = HashMap::new();
    let mut slots = HashMap::new();
    for (index, entry) in batch.entries.iter().enumerate() {
        for place in written_pages(entry) {
            if let Some(&page) = entry.pages.get(place) {
                writers.entry(page).or_insert((index, place));
            }
        }
        if let Some(other) = entry.state.and_then(|access| slots.insert(access.slot, index)) {
            let message = format!("it names the state slot of entry {other}; slots are not shared");
            return Err(BackendError::Entry { entry: index, message });
        }
    }
    for (index, entry) in batch.entries.iter().enumerate() {
        for (place, &page) in entry.pages.iter().enumerate() {
            if let Some(&(other, other_place)) = writers.get(&page).filter(|&&writer| writer != (index, place)) {
                let message = shared_page(page, place, other, other_place);
                return Err(BackendError::Entry { entry: index, message });
            }
        }
    }
    Ok(())
}

fn shared_page(page: PageId, place: usize, other: usize, other_place: usize) -> String {
    format!(
        "page {page}, its page number {place}, is written in this step as page number {other_place} of entry {other}; \
         a page that is written belongs to one sequence (copy it with `copy_page`)"
    )
}

/// Which of an entry's pages the step writes, as indices into its page list.
pub(super) fn written_pages(entry: &BatchEntry) -> Range<usize> {
    let first = entry.first_position.index();
    first / ATTENTION_CHUNK..(first + entry.tokens.len()).div_ceil(ATTENTION_CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::state::StateShape;
    use crate::backend::{SnapshotId, StateAccess};
    use crate::types::{Position, StateSlot};

    fn entry(first: u32, length: usize, pages: &[u32]) -> BatchEntry {
        BatchEntry {
            tokens: vec![TokenId(1); length],
            first_position: Position(first),
            pages: pages.iter().copied().map(PageId).collect(),
            state: None,
            convolves: true,
            logits_from: length - 1,
            prefill: true,
            snapshots: Vec::new(),
        }
    }

    fn limits(state: &ConvolutionState) -> Limits<'_> {
        Limits { vocabulary_size: 10, pages: 8, drafts: 3, state }
    }

    fn no_state() -> ConvolutionState {
        ConvolutionState::new(StateShape { layers: 0, channels: 2, width: 3, drafts: 3 }, 2, 1).unwrap()
    }

    #[track_caller]
    fn refused(entries: Vec<BatchEntry>, limits: &Limits<'_>, expected: &str) {
        let error = plan(&StepBatch { entries }, limits).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn rows_follow_the_entries() {
        let entries = vec![entry(0, 3, &[0]), BatchEntry { logits_from: 0, ..entry(40, 2, &[3, 4]) }];
        let batch = StepBatch { entries };
        let plan = plan(&batch, &limits(&no_state())).unwrap();
        let places: Vec<(usize, usize)> = plan.rows.iter().map(|row| (row.entry, row.position)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 40), (1, 41)]);
        assert_eq!(plan.wanted, [2, 3, 4]);
        assert_eq!(plan.entries[1].rows, 3..5);
    }

    #[test]
    fn an_entry_that_breaks_a_rule_is_refused() {
        let state = no_state();
        let limits = limits(&state);
        let good = || entry(0, 3, &[0]);
        plan(&StepBatch { entries: vec![good()] }, &limits).unwrap();
        refused(vec![BatchEntry { tokens: Vec::new(), ..good() }], &limits, "no tokens");
        refused(vec![BatchEntry { tokens: vec![TokenId(10)], ..good() }], &limits, "vocabulary size 10");
        refused(vec![BatchEntry { prefill: false, ..entry(0, 5, &[0]) }], &limits, "up to 3 drafts");
        refused(vec![BatchEntry { logits_from: 4, ..good() }], &limits, "logits from token 4 of 3");
        refused(vec![entry(30, 3, &[0])], &limits, "1 pages given, positions 0 to 32 need 2");
        refused(vec![entry(0, 3, &[8])], &limits, "page 8 asked for");
        refused(vec![entry(u32::MAX, 3, &[0])], &limits, "past the greatest position");
        let access = StateAccess { slot: StateSlot(0), column: 0 };
        refused(vec![BatchEntry { state: Some(access), ..good() }], &limits, "no recurrent layers");
        let snapshots = vec![(Position(1), SnapshotId(0))];
        refused(vec![BatchEntry { snapshots, ..good() }], &limits, "no recurrent layers");
    }

    #[test]
    fn state_is_checked_against_the_row() {
        let state = ConvolutionState::new(StateShape { layers: 1, channels: 2, width: 3, drafts: 3 }, 2, 1).unwrap();
        let limits = limits(&state);
        let access = |slot, column| Some(StateAccess { slot: StateSlot(slot), column });
        let good = || BatchEntry { state: access(0, 0), ..entry(4, 3, &[0]) };
        // A legal column greater than the number of tokens: the bound is the row, never the query.
        let decode = BatchEntry { state: access(0, 3), prefill: false, ..entry(4, 1, &[0]) };
        plan(&StepBatch { entries: vec![decode] }, &limits).unwrap();
        refused(vec![entry(0, 3, &[0])], &limits, "names no state slot");
        refused(vec![BatchEntry { state: access(0, 4), ..good() }], &limits, "columns 0 to 3");
        refused(vec![BatchEntry { state: access(2, 0), ..good() }], &limits, "2 state slots");
        let other = BatchEntry { pages: vec![PageId(1)], ..good() };
        refused(vec![good(), other], &limits, "state slot of entry 0");
        let snapshot = |position, id| vec![(Position(position), SnapshotId(id))];
        plan(&StepBatch { entries: vec![BatchEntry { snapshots: snapshot(7, 0), ..good() }] }, &limits).unwrap();
        refused(vec![BatchEntry { snapshots: snapshot(4, 0), ..good() }], &limits, "the chunk passes 5 to 7");
        refused(vec![BatchEntry { snapshots: snapshot(5, 1), ..good() }], &limits, "1 snapshots");
        let decode = BatchEntry { prefill: false, snapshots: snapshot(5, 0), ..good() };
        refused(vec![decode], &limits, "in prefill only");
    }

    #[test]
    fn a_written_page_belongs_to_one_entry() {
        let state = no_state();
        let limits = limits(&state);
        // Both read page 0, each writes a page of its own.
        let shared = vec![entry(32, 2, &[0, 1]), entry(32, 2, &[0, 2])];
        plan(&StepBatch { entries: shared }, &limits).unwrap();
        refused(vec![entry(32, 2, &[0, 1]), entry(32, 2, &[0, 1])], &limits, "page 1, its page number 1, is written");
        refused(vec![entry(32, 2, &[1, 0]), entry(0, 2, &[1]), entry(32, 2, &[1, 2])], &limits, "page 1");
        refused(vec![entry(32, 2, &[1, 1])], &limits, "page 1");
    }
}
