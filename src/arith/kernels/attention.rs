//! Attention of one query head over paged keys and values.

use super::super::ATTENTION_CHUNK;
#[cfg(target_arch = "x86_64")]
use super::super::{Isa, avx2, avx512};
use super::{Kernels, compiled_for, scalar, sum_by_halves};

/// Pages whose scores are computed together, so that their fma chains overlap.
const PAGES_AT_ONCE: usize = 4;

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

/// A number of the cache: f32, or the bits of an f16.
pub(in crate::arith) trait KvNumber: Copy {
    /// Its exact value.
    fn widen(self) -> f32;
}

impl KvNumber for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
}

impl KvNumber for u16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        scalar::f16_to_f32(self)
    }
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
    /// If `length` is 0, the output is not as long as the query, or the pages are not of one type or not for heads of
    /// this size.
    pub fn attention<'a>(
        &self,
        query: &[f32],
        length: usize,
        page: impl Fn(usize) -> KvPage<'a>,
        scale: f32,
        out: &mut [f32],
    ) {
        assert!(length > 0, "a query attends to itself at least");
        assert_eq!(query.len(), out.len(), "a query and its output");
        let elements = KvPage::elements(query.len());
        match page(0) {
            KvPage::F32 { .. } => self.attend(query, length, scale, out, |index| match page(index) {
                KvPage::F32 { keys, values } => (&keys[..elements], &values[..elements]),
                KvPage::F16 { .. } => panic!("page {index} is not of the type of page 0"),
            }),
            KvPage::F16 { .. } => self.attend(query, length, scale, out, |index| match page(index) {
                KvPage::F16 { keys, values } => (&keys[..elements], &values[..elements]),
                KvPage::F32 { .. } => panic!("page {index} is not of the type of page 0"),
            }),
        }
    }

    fn attend<'a, T: KvNumber + 'a>(
        &self,
        query: &[f32],
        length: usize,
        scale: f32,
        out: &mut [f32],
        page: impl Fn(usize) -> (&'a [T], &'a [T]),
    ) {
        let mut total = Partial { maximum: f32::NEG_INFINITY, sum: 0.0 };
        let mut accumulator = vec![0.0; out.len()];
        let pages = length.div_ceil(ATTENTION_CHUNK);
        for first in (0..pages).step_by(PAGES_AT_ONCE) {
            let group = pages.min(first + PAGES_AT_ONCE) - first;
            let mut chunks = [[0.0; ATTENTION_CHUNK]; PAGES_AT_ONCE];
            if group == PAGES_AT_ONCE {
                chunks = self.scores(query, std::array::from_fn(|index| page(first + index).0));
            } else {
                for (index, chunk) in chunks[..group].iter_mut().enumerate() {
                    [*chunk] = self.scores(query, [page(first + index).0]);
                }
            }
            for (index, weights) in (first..first + group).zip(&mut chunks) {
                let count = ATTENTION_CHUNK.min(length - index * ATTENTION_CHUNK);
                let partial = self.exponentials(weights, count, scale);
                if index == 0 {
                    self.weigh(&weights[..count], page(index).1, out);
                    total = partial;
                } else {
                    self.weigh(&weights[..count], page(index).1, &mut accumulator);
                    self.merge(&mut total, &partial, out, &accumulator);
                }
            }
        }
        for out in out {
            *out /= total.sum;
        }
    }

    /// The products of the query with every key of some pages.
    fn scores<T: KvNumber, const P: usize>(&self, query: &[f32], pages: [&[T]; P]) -> [[f32; ATTENTION_CHUNK]; P] {
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels::new` checked that this machine has the features of the path.
            Isa::Avx512 => unsafe { avx512::scores(query, pages) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { avx2::scores(query, pages) },
            _ => pages.map(|keys| {
                let mut sums = [0.0; ATTENTION_CHUNK];
                for (query, keys) in query.iter().zip(keys.as_chunks::<ATTENTION_CHUNK>().0) {
                    for (sum, key) in sums.iter_mut().zip(keys) {
                        *sum = query.mul_add(key.widen(), *sum);
                    }
                }
                sums
            }),
        }
    }

    /// The sum of a page's values, weighted.
    fn weigh<T: KvNumber>(&self, weights: &[f32], values: &[T], out: &mut [f32]) {
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels::new` checked that this machine has the features of the path.
            Isa::Avx512 => unsafe { avx512::weigh(weights, values, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { avx2::weigh(weights, values, out) },
            _ => {
                out.fill(0.0);
                for (weight, values) in weights.iter().zip(values.chunks_exact(out.len())) {
                    for (sum, value) in out.iter_mut().zip(values) {
                        *sum = weight.mul_add(value.widen(), *sum);
                    }
                }
            }
        }
    }

    /// Turns the products of one chunk, of which the first `count` are of keys that there are, into weights.
    fn exponentials(&self, chunk: &mut [f32; ATTENTION_CHUNK], count: usize, scale: f32) -> Partial {
        compiled_for!(self.isa, fn(chunk: &mut [f32; ATTENTION_CHUNK] = chunk, count: usize = count, scale: f32 = scale) -> Partial {
            for score in chunk.iter_mut() {
                *score *= scale;
            }
            chunk[count..].fill(f32::NEG_INFINITY);
            let maximum = maximum(*chunk);
            for score in chunk.iter_mut() {
                *score = scalar::exp(*score - maximum);
            }
            chunk[count..].fill(0.0);
            Partial { maximum, sum: sum_by_halves(*chunk) }
        })
    }

    /// Adds a chunk to what came before it: both are scaled to the greater maximum.
    fn merge(&self, total: &mut Partial, chunk: &Partial, out: &mut [f32], accumulator: &[f32]) {
        compiled_for!(self.isa, fn(total: &mut Partial = total, chunk: &Partial = chunk, out: &mut [f32] = out, accumulator: &[f32] = accumulator) {
            let maximum = if chunk.maximum > total.maximum { chunk.maximum } else { total.maximum };
            let before = scalar::exp(total.maximum - maximum);
            let now = scalar::exp(chunk.maximum - maximum);
            total.sum = total.sum.mul_add(before, chunk.sum * now);
            total.maximum = maximum;
            for (out, sum) in out.iter_mut().zip(accumulator) {
                *out = out.mul_add(before, sum * now);
            }
        });
    }
}

/// What one chunk of keys, or all chunks so far, contribute.
struct Partial {
    maximum: f32,
    sum: f32,
}

/// The greatest of the lanes, NaN left out. Unlike a sum it does not depend on the order, but for the sign of a zero, which
/// no difference to it shows.
#[inline(always)]
fn maximum(mut lanes: [f32; ATTENTION_CHUNK]) -> f32 {
    // A NaN must not hide what it is compared with.
    for lane in &mut lanes {
        *lane = if *lane > f32::NEG_INFINITY { *lane } else { f32::NEG_INFINITY };
    }
    let mut width = ATTENTION_CHUNK / 2;
    while width > 0 {
        let (low, high) = lanes.split_at_mut(width);
        for (low, high) in low.iter_mut().zip(&high[..width]) {
            *low = if *high > *low { *high } else { *low };
        }
        width /= 2;
    }
    lanes[0]
}
