//! The gated short convolution of a layer, and what it leaves in the recurrent state.

use std::ops::Range;

use super::compute::Compute;
use super::disjoint::Disjoint;
use super::plan::RowPlan;
use super::pool::RegionPanicked;
use super::state::ConvolutionState;
use crate::arith::TILE;

/// The window of every entry: its history, then `B * x` of each of its tokens; `[row][channel]`.
pub(super) struct Windows<'a> {
    pub rows: &'a mut [f32],
    pub history: usize,
    pub channels: usize,
}

impl Windows<'_> {
    /// Rows of entry number `entry`, whose tokens are `tokens` of the step.
    fn of(&self, entry: usize, tokens: &Range<usize>) -> Range<usize> {
        tokens.start + entry * self.history..tokens.end + (entry + 1) * self.history
    }
}

impl Compute {
    /// `mixed = C * convolution(B * x)`, the convolution running over each entry's history and tokens.
    ///
    /// `gates` holds B, C and x of each row; the windows hold the histories, and the inputs afterwards.
    pub(super) fn convolve(
        &mut self,
        plan: &RowPlan<'_>,
        taps: &[f32],
        gates: &[f32],
        windows: &mut Windows<'_>,
        mixed: &mut [f32],
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let (channels, history) = (windows.channels, windows.history);
        let ranges: Vec<Range<usize>> =
            plan.entries.iter().enumerate().map(|(index, planned)| windows.of(index, &planned.rows)).collect();
        let windows = Disjoint::new(windows.rows);
        let mixed = Disjoint::new(mixed);
        self.pool.split(channels, TILE, &|own| {
            let taps = &taps[own.start * (history + 1)..own.end * (history + 1)];
            let mut convolved = vec![0.0; own.len()];
            for (planned, range) in plan.entries.iter().zip(&ranges) {
                let mut window: Vec<&mut [f32]> = (range.clone())
                    // SAFETY: windows do not overlap, and every channel belongs to one range of the split.
                    .map(|row| unsafe { windows.part(row * channels + own.start..row * channels + own.end) })
                    .collect();
                if !planned.entry.convolves {
                    for row in planned.rows.clone() {
                        // SAFETY: every row is one entry's, and every channel belongs to one range of the split.
                        unsafe { mixed.part(row * channels + own.start..row * channels + own.end) }.fill(0.0);
                    }
                    continue;
                }
                let gate = |row: usize, gate: usize| &gates[(3 * row + gate) * channels..][own.clone()];
                for (input, row) in window[history..].iter_mut().zip(planned.rows.clone()) {
                    kernels.product(gate(row, 0), gate(row, 2), input);
                }
                let window: Vec<&[f32]> = window.into_iter().map(|row| &*row).collect();
                for (inputs, row) in window.windows(history + 1).zip(planned.rows.clone()) {
                    kernels.short_convolution(taps, inputs, &mut convolved);
                    // SAFETY: every row is one entry's, and every channel belongs to one range of the split.
                    let out = unsafe { mixed.part(row * channels + own.start..row * channels + own.end) };
                    kernels.product(gate(row, 1), &convolved, out);
                }
            }
        })
    }
}

/// Puts each entry's history of state layer `layer` at the start of its window.
pub(super) fn load_histories(plan: &RowPlan<'_>, layer: usize, state: &ConvolutionState, windows: &mut Windows<'_>) {
    for (index, planned) in plan.entries.iter().enumerate() {
        let start = windows.of(index, &planned.rows).start * windows.channels;
        let history = &mut windows.rows[start..start + windows.history * windows.channels];
        match planned.entry.state {
            Some(access) if planned.entry.first_position.0 > 0 => history.copy_from_slice(state.history(layer, access)),
            // A sequence begins with zeros.
            _ => history.fill(0.0),
        }
    }
}

/// Replaces each entry's state of layer `layer`, and takes the snapshots it asks for.
pub(super) fn roll(plan: &RowPlan<'_>, layer: usize, state: &mut ConvolutionState, windows: &Windows<'_>) {
    for (index, planned) in plan.entries.iter().enumerate() {
        let rows = windows.of(index, &planned.rows);
        let window = &windows.rows[rows.start * windows.channels..rows.end * windows.channels];
        let history_size = windows.history * windows.channels;
        if let Some(access) = planned.entry.state.filter(|_| planned.entry.convolves) {
            // After prefill all tokens are committed; else the history after `a` accepted tokens begins at column `a - 1`.
            let kept = if planned.entry.prefill { window.len() - history_size } else { windows.channels };
            state.replace(layer, access.slot, &window[kept..]);
        }
        for &(position, snapshot) in &planned.entry.snapshots {
            let start = (position.index() - planned.entry.first_position.index()) * windows.channels;
            state.snapshot_mut(layer, snapshot).copy_from_slice(&window[start..start + history_size]);
        }
    }
}
