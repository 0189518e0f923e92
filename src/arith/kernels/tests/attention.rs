use proptest::prelude::*;

use super::support::{Random, bits, paths};
use crate::arith::{ATTENTION_CHUNK, Kernels, KvPage, KvPageMut, KvType, scalar};

/// A cache of one head with room for `keys.len()` positions.
enum Cache {
    F32 { keys: Vec<Vec<f32>>, values: Vec<Vec<f32>> },
    F16 { keys: Vec<Vec<u16>>, values: Vec<Vec<u16>> },
}

impl Cache {
    fn new(kind: KvType, keys: &[Vec<f32>], values: &[Vec<f32>]) -> Self {
        let pages = keys.len().div_ceil(ATTENTION_CHUNK);
        let elements = KvPage::elements(keys[0].len());
        let mut cache = match kind {
            // Slots that are never stored hold what an earlier sequence left there.
            KvType::F32 => Cache::F32 {
                keys: vec![vec![f32::NAN; elements]; pages],
                values: vec![vec![f32::NAN; elements]; pages],
            },
            KvType::F16 => {
                Cache::F16 { keys: vec![vec![0x7e01; elements]; pages], values: vec![vec![0x7e01; elements]; pages] }
            }
        };
        for (position, (key, value)) in keys.iter().zip(values).enumerate() {
            let page = position / ATTENTION_CHUNK;
            let mut page = match &mut cache {
                Cache::F32 { keys, values } => KvPageMut::F32 { keys: &mut keys[page], values: &mut values[page] },
                Cache::F16 { keys, values } => KvPageMut::F16 { keys: &mut keys[page], values: &mut values[page] },
            };
            page.store(position % ATTENTION_CHUNK, key, value);
        }
        cache
    }

    fn page(&self, page: usize) -> KvPage<'_> {
        match self {
            Cache::F32 { keys, values } => KvPage::F32 { keys: &keys[page], values: &values[page] },
            Cache::F16 { keys, values } => KvPage::F16 { keys: &keys[page], values: &values[page] },
        }
    }
}

fn expected(kind: KvType, query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], scale: f32) -> Vec<f32> {
    let stored = |rows: &[Vec<f32>]| -> Vec<Vec<f32>> {
        rows.iter().map(|row| row.iter().map(|x| kind.stored(*x)).collect()).collect()
    };
    let (keys, values) = (stored(keys), stored(values));
    let mut out = vec![0.0; query.len()];
    scalar::attention(query, keys.len(), |k| &keys[k][..], |k| &values[k][..], scale, &mut out);
    out
}

fn found(kernels: Kernels, cache: &Cache, query: &[f32], length: usize, scale: f32) -> Vec<f32> {
    let mut out = vec![f32::MAX; query.len()];
    kernels.attention(query, length, |page| cache.page(page), scale, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn attention_equals_the_scalar_form(
        kind in prop::sample::select(vec![KvType::F32, KvType::F16]),
        head in prop::sample::select(vec![1usize, 8, 48, 64, 80, 128]),
        length in 1usize..300,
        poison in prop::sample::select(vec![None, None, None, Some(f32::NAN), Some(f32::INFINITY), Some(f32::NEG_INFINITY)]),
        seed: u64,
    ) {
        let mut random = Random(seed);
        let query = random.row(head);
        let mut keys: Vec<Vec<f32>> = (0..length).map(|_| random.row(head)).collect();
        let values: Vec<Vec<f32>> = (0..length).map(|_| random.row(head)).collect();
        if let Some(poison) = poison {
            keys[length / 2][head / 2] = poison;
        }
        let cache = Cache::new(kind, &keys, &values);
        let expected = expected(kind, &query, &keys, &values, 0.125);
        for kernels in paths() {
            prop_assert_eq!(bits(&found(kernels, &cache, &query, length, 0.125)), bits(&expected), "{}", kernels.isa());
        }
    }
}

#[test]
fn the_comparison_sees_a_key_too_few() {
    let mut random = Random(3);
    let mut row = || -> Vec<f32> { (0..64).map(|_| random.unit()).collect() };
    let query = row();
    let keys: Vec<Vec<f32>> = (0..130).map(|_| row()).collect();
    let cache = Cache::new(KvType::F16, &keys, &keys);
    let expected = expected(KvType::F16, &query, &keys, &keys, 0.125);
    for kernels in paths() {
        assert_eq!(bits(&found(kernels, &cache, &query, 130, 0.125)), bits(&expected));
        assert_ne!(bits(&found(kernels, &cache, &query, 129, 0.125)), bits(&expected));
    }
}
