//! Attention of one query head over its keys and values.

use super::super::ATTENTION_CHUNK;
use super::{exp, sum_by_halves, vectorized};

/// What one chunk of keys, or all chunks so far, contribute beside their weighted sum of values.
#[derive(Clone, Copy)]
struct Partial {
    maximum: f32,
    sum: f32,
}

/// `out = sum_k softmax(scale * query . key(k)) * value(k)` over the keys 0 to `length - 1`.
///
/// All slices are of the head's size. Keys are taken in chunks of [`ATTENTION_CHUNK`] from position 0, each with its own
/// maximum, sum and weighted sum of values; chunks are merged in order.
///
/// # Panics
/// If `length` is 0, or a slice is not as long as `query`.
pub fn attention<'a>(
    query: &[f32],
    length: usize,
    key: impl Fn(usize) -> &'a [f32],
    value: impl Fn(usize) -> &'a [f32],
    scale: f32,
    out: &mut [f32],
) {
    assert!(length > 0, "a query attends to itself at least");
    assert_eq!(query.len(), out.len(), "a query and its output");
    let mut total: Option<Partial> = None;
    let mut weighted = vec![0.0; out.len()];
    for first in (0..length).step_by(ATTENTION_CHUNK) {
        let count = ATTENTION_CHUNK.min(length - first);
        let (mut keys, mut values) = ([&[][..]; ATTENTION_CHUNK], [&[][..]; ATTENTION_CHUNK]);
        for offset in 0..count {
            keys[offset] = key(first + offset);
            values[offset] = value(first + offset);
        }
        let chunk = attend(query, &keys[..count], &values[..count], scale, &mut weighted);
        total = Some(match total {
            None => {
                out.copy_from_slice(&weighted);
                chunk
            }
            Some(before) => merge(before, out, chunk, &weighted),
        });
    }
    if let Some(Partial { sum, .. }) = total {
        for out in out {
            *out /= sum;
        }
    }
}

vectorized! {
    /// One chunk: its weighted sum of values goes to `weighted`.
    fn attend(query: &[f32], keys: &[&[f32]], values: &[&[f32]], scale: f32, weighted: &mut [f32]) -> Partial {
        let scores = scores(query, keys, scale);
        let scores = &scores[..keys.len()];
        let maximum = scores.iter().fold(f32::NEG_INFINITY, |most, score| if *score > most { *score } else { most });
        // Keys that a last chunk lacks weigh +0.
        let mut weights = [0.0; ATTENTION_CHUNK];
        for (weight, score) in weights.iter_mut().zip(scores) {
            *weight = exp(*score - maximum);
        }
        weighted.fill(0.0);
        for (weight, value) in weights.iter().zip(values) {
            assert_eq!(value.len(), weighted.len(), "a value and the output");
            for (sum, value) in weighted.iter_mut().zip(*value) {
                *sum = weight.mul_add(*value, *sum);
            }
        }
        Partial { maximum, sum: sum_by_halves(weights) }
    }
}

/// The scaled products of the query with each key, in order over the head's elements; lanes are keys.
#[inline(always)]
fn scores(query: &[f32], keys: &[&[f32]], scale: f32) -> [f32; ATTENTION_CHUNK] {
    let mut by_element = vec![[0.0; ATTENTION_CHUNK]; query.len()];
    for (lane, key) in keys.iter().enumerate() {
        assert_eq!(key.len(), query.len(), "a key and the query");
        for (row, element) in by_element.iter_mut().zip(*key) {
            row[lane] = *element;
        }
    }
    let mut scores = [0.0; ATTENTION_CHUNK];
    for (query, row) in query.iter().zip(&by_element) {
        for (score, element) in scores.iter_mut().zip(row) {
            *score = query.mul_add(*element, *score);
        }
    }
    for score in &mut scores {
        *score *= scale;
    }
    scores
}

vectorized! {
    /// Adds a chunk to what came before it (`out`): both are scaled to the greater maximum.
    fn merge(before: Partial, out: &mut [f32], chunk: Partial, weighted: &[f32]) -> Partial {
        let maximum = if chunk.maximum > before.maximum { chunk.maximum } else { before.maximum };
        let scale_before = exp(before.maximum - maximum);
        let scale_chunk = exp(chunk.maximum - maximum);
        for (out, sum) in out.iter_mut().zip(weighted) {
            *out = out.mul_add(scale_before, sum * scale_chunk);
        }
        Partial { maximum, sum: before.sum.mul_add(scale_before, chunk.sum * scale_chunk) }
    }
}
