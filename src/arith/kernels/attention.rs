//! Attention of one query head over paged keys and values.

use super::super::ATTENTION_CHUNK;
use super::{Kernels, scalar};

/// What one head keeps for the [`ATTENTION_CHUNK`] positions of a page.
///
/// Keys are stored `[element][position]`, so that a vector of scores needs no shuffles; values `[position][element]`.
#[derive(Clone, Copy, Debug)]
pub enum KvPage<'a> {
    /// [`super::super::KvType::F32`].
    F32 {
        /// Keys.
        keys: &'a [f32],
        /// Values.
        values: &'a [f32],
    },
    /// [`super::super::KvType::F16`], as bits.
    F16 {
        /// Keys.
        keys: &'a [u16],
        /// Values.
        values: &'a [u16],
    },
}

/// A [`KvPage`] to store into.
#[derive(Debug)]
pub enum KvPageMut<'a> {
    /// [`super::super::KvType::F32`].
    F32 {
        /// Keys.
        keys: &'a mut [f32],
        /// Values.
        values: &'a mut [f32],
    },
    /// [`super::super::KvType::F16`], as bits.
    F16 {
        /// Keys.
        keys: &'a mut [u16],
        /// Values.
        values: &'a mut [u16],
    },
}

impl KvPage<'_> {
    /// Numbers that the keys of one head take in a page; its values take as many.
    pub const fn elements(head_size: usize) -> usize {
        ATTENTION_CHUNK * head_size
    }
}

impl KvPageMut<'_> {
    /// Stores one position, `slot` of the page.
    ///
    /// # Panics
    ///
    /// If `slot` is not below [`ATTENTION_CHUNK`], or the page is not for heads of this size.
    pub fn store(&mut self, slot: usize, key: &[f32], value: &[f32]) {
        assert!(slot < ATTENTION_CHUNK && key.len() == value.len(), "slot {slot}");
        match self {
            Self::F32 { keys, values } => store_elements(keys, values, slot, key, value, |x| x),
            Self::F16 { keys, values } => store_elements(keys, values, slot, key, value, scalar::f32_to_f16),
        }
    }
}

fn store_elements<T>(
    keys: &mut [T],
    values: &mut [T],
    slot: usize,
    key: &[f32],
    value: &[f32],
    convert: impl Fn(f32) -> T,
) {
    let elements = KvPage::elements(key.len());
    assert!(keys.len() == elements && values.len() == elements, "a page of {} and {}", keys.len(), values.len());
    for (stored, &x) in keys.iter_mut().skip(slot).step_by(ATTENTION_CHUNK).zip(key) {
        *stored = convert(x);
    }
    for (stored, &x) in values[slot * value.len()..].iter_mut().zip(value) {
        *stored = convert(x);
    }
}

impl Kernels {
    /// [`scalar::attention`] over the positions 0 to `length - 1`; `page` gives the pages by index.
    ///
    /// # Panics
    ///
    /// If `length` is 0, the output is not as long as the query, or a page is not for heads of this size.
    pub fn attention<'a>(
        &self,
        query: &[f32],
        length: usize,
        page: impl Fn(usize) -> KvPage<'a>,
        scale: f32,
        out: &mut [f32],
    ) {
        let head = query.len();
        let mut keys = vec![0.0; length * head];
        let mut values = vec![0.0; length * head];
        for (position, (key, value)) in keys.chunks_exact_mut(head).zip(values.chunks_exact_mut(head)).enumerate() {
            let slot = position % ATTENTION_CHUNK;
            match page(position / ATTENTION_CHUNK) {
                KvPage::F32 { keys, values } => load_elements(keys, values, slot, key, value, |x| x),
                KvPage::F16 { keys, values } => load_elements(keys, values, slot, key, value, scalar::f16_to_f32),
            }
        }
        scalar::attention(query, length, |k| &keys[k * head..][..head], |k| &values[k * head..][..head], scale, out);
    }
}

fn load_elements<T: Copy>(
    keys: &[T],
    values: &[T],
    slot: usize,
    key: &mut [f32],
    value: &mut [f32],
    convert: impl Fn(T) -> f32,
) {
    let elements = KvPage::elements(key.len());
    assert!(keys.len() == elements && values.len() == elements, "a page of {} and {}", keys.len(), values.len());
    let value_size = value.len();
    for (x, &stored) in key.iter_mut().zip(keys.iter().skip(slot).step_by(ATTENTION_CHUNK)) {
        *x = convert(stored);
    }
    for (x, &stored) in value.iter_mut().zip(&values[slot * value_size..]) {
        *x = convert(stored);
    }
}
