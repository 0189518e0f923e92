//! Attention of one query head over its keys and values.

use super::super::ATTENTION_CHUNK;
use super::{exp, sum_by_halves};

/// What one chunk of keys, or all chunks so far, contribute.
struct Partial {
    maximum: f32,
    sum: f32,
}

/// `out = sum_k softmax(scale * query . key(k)) * value(k)` over the keys 0 to `length - 1`.
///
/// All slices are of the head's size. Keys are taken in chunks of [`ATTENTION_CHUNK`] from position 0, each with its own
/// maximum, sum and accumulator; chunks are merged in order.
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
    let mut total = Partial { maximum: f32::NEG_INFINITY, sum: 0.0 };
    let mut accumulator = vec![0.0; out.len()];
    for first in (0..length).step_by(ATTENTION_CHUNK) {
        let keys = first..length.min(first + ATTENTION_CHUNK);
        let chunk = chunk(query, keys.clone().map(&key), keys.map(&value), scale, &mut accumulator);
        if first == 0 {
            out.copy_from_slice(&accumulator);
            total = chunk;
        } else {
            merge(&mut total, &chunk, out, &accumulator);
        }
    }
    for out in out {
        *out /= total.sum;
    }
}

/// One chunk: its weighted sum of values into `accumulator`.
#[inline(always)]
fn chunk<'a>(
    query: &[f32],
    keys: impl Iterator<Item = &'a [f32]>,
    values: impl Iterator<Item = &'a [f32]>,
    scale: f32,
    accumulator: &mut [f32],
) -> Partial {
    let mut weights = [0.0; ATTENTION_CHUNK];
    let mut count = 0;
    for (weight, key) in weights.iter_mut().zip(keys) {
        let score = query.iter().zip(key).fold(0.0, |sum: f32, (q, k)| q.mul_add(*k, sum));
        *weight = scale * score;
        count += 1;
    }
    let maximum =
        weights[..count].iter().fold(f32::NEG_INFINITY, |most, score| if *score > most { *score } else { most });
    for weight in &mut weights[..count] {
        *weight = exp(*weight - maximum);
    }
    accumulator.fill(0.0);
    for (weight, value) in weights.iter().zip(values) {
        for (sum, value) in accumulator.iter_mut().zip(value) {
            *sum = weight.mul_add(*value, *sum);
        }
    }
    Partial { maximum, sum: sum_by_halves(weights) }
}

/// Adds a chunk to what came before it: both are scaled to the greater maximum.
#[inline(always)]
fn merge(total: &mut Partial, chunk: &Partial, out: &mut [f32], accumulator: &[f32]) {
    let maximum = if chunk.maximum > total.maximum { chunk.maximum } else { total.maximum };
    let before = exp(total.maximum - maximum);
    let now = exp(chunk.maximum - maximum);
    total.sum = total.sum.mul_add(before, chunk.sum * now);
    total.maximum = maximum;
    for (out, sum) in out.iter_mut().zip(accumulator) {
        *out = out.mul_add(before, sum * now);
    }
}
