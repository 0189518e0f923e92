//! The parallel regions of an attention layer.

use super::compute::Compute;
use super::disjoint::Disjoint;
use super::kv_cache::KvCache;
use super::plan::{RowPlan, written_pages};
use super::pool::RegionPanicked;
use crate::arith::scalar::Rotation;
use crate::arith::{ATTENTION_CHUNK, RopeLayout};
use crate::model::ModelConfig;

/// The heads of a layer and how they are rotated.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_size: usize,
    pub layout: RopeLayout,
    pub norm_epsilon: f32,
}

impl Heads {
    /// The heads of every attention layer of a model.
    pub(super) fn of(config: &ModelConfig) -> Self {
        Self {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_size: config.head_size,
            layout: config.rope.layout,
            norm_epsilon: config.norm_epsilon,
        }
    }
}

impl Compute {
    /// Normalizes each head of each row by `norm`, if there is one, and turns it by the row's rotation.
    pub(super) fn rotate(
        &mut self,
        rows: &mut [f32],
        norm: Option<&[f32]>,
        rotations: &[Rotation],
        heads: Heads,
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let width = rows.len() / rotations.len();
        let rows = Disjoint::new(rows);
        self.pool.split(rotations.len(), 1, &|range| {
            let mut unnormalized = vec![0.0; heads.head_size];
            for (row, rotation) in range.clone().zip(&rotations[range]) {
                // SAFETY: every row belongs to one range of the split.
                let row = unsafe { rows.row(row, width) };
                for head in row.chunks_exact_mut(heads.head_size) {
                    if let Some(weight) = norm {
                        unnormalized.copy_from_slice(head);
                        kernels.rms_norm(&unnormalized, weight, heads.norm_epsilon, head);
                    }
                    kernels.rotate(rotation, heads.layout, head);
                }
            }
        })
    }

    /// Stores the keys and values of every row in the pages of its entry.
    pub(super) fn store(
        &mut self,
        cache: &mut KvCache,
        layer: usize,
        plan: &RowPlan<'_>,
        [key, value]: [&[f32]; 2],
        heads: Heads,
    ) -> Result<(), RegionPanicked> {
        let size = heads.head_size;
        let writer = cache.writer(layer);
        let store_head = |index: usize| {
            let (planned, head) = (&plan.entries[index / heads.kv_heads], index % heads.kv_heads);
            let entry = planned.entry;
            let first = entry.first_position.index();
            for place in written_pages(entry) {
                // SAFETY: the plan checked that a page is written by one entry and stands in its list once; each entry
                // and head is one item.
                let mut page = unsafe { writer.page(entry.pages[place], head) };
                let start = place * ATTENTION_CHUNK;
                for position in start.max(first)..(start + ATTENTION_CHUNK).min(first + entry.tokens.len()) {
                    let row = planned.rows.start + position - first;
                    let from = (row * heads.kv_heads + head) * size;
                    page.store(position - start, &key[from..from + size], &value[from..from + size]);
                }
            }
        };
        let items = plan.entries.len() * heads.kv_heads;
        // Waking the other threads costs more than storing a few rows.
        let unit = if plan.rows.len() < ROWS_WORTH_SHARING { items } else { 1 };
        self.pool.split(items, unit, &|range| range.for_each(store_head))
    }

    /// `mixed`: for each row and head, the values of all positions up to the row's own, weighted by attention.
    pub(super) fn attend(
        &mut self,
        cache: &KvCache,
        layer: usize,
        plan: &RowPlan<'_>,
        [query, mixed]: [&mut [f32]; 2],
        heads: Heads,
    ) -> Result<(), RegionPanicked> {
        let kernels = self.kernels;
        let size = heads.head_size;
        let group = heads.heads / heads.kv_heads;
        let scale = 1.0 / (size as f32).sqrt();
        let mixed = Disjoint::new(mixed);
        let query = &*query;
        // Rows of one head are neighbours, so that a thread finds the pages it read for the last row in its cache.
        self.pool.claim(plan.rows.len() * heads.heads, &|item| {
            let (head, index) = (item / plan.rows.len(), item % plan.rows.len());
            let row = plan.rows[index];
            let pages = &plan.entries[row.entry].entry.pages;
            let page = |page: usize| cache.page(layer, pages[page], head / group);
            let block = index * heads.heads + head;
            // SAFETY: each row and head is one item.
            let out = unsafe { mixed.row(block, size) };
            kernels.attention(&query[block * size..][..size], row.position + 1, page, scale, out);
        })
    }
}

/// Rows from which storing keys and values is split over the threads.
const ROWS_WORTH_SHARING: usize = 8;
