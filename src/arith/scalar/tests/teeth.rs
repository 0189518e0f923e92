//! The golden vectors notice a change of the rules: each rule, changed alone, gives other bits for some vector.

use super::super::super::WeightFormat;
use super::super::*;
use super::*;

/// The rules of a quantized product, each of which can be broken.
#[derive(Clone, Copy)]
struct Rules {
    lanes: usize,
    fused: bool,
    by_halves: bool,
    scales_first: bool,
}

const CONTRACT: Rules = Rules { lanes: 8, fused: true, by_halves: true, scales_first: true };

/// A Q8_0 product under `rules`, written apart from the definition.
fn q8_0(row: &[u8], x: &[f32], rules: Rules) -> f32 {
    let x = quantize(x);
    let mut lanes = vec![0.0f32; rules.lanes];
    for (block, bytes) in row.chunks(34).enumerate() {
        let sum: i32 = (0..32).map(|i| i32::from(bytes[2 + i] as i8) * i32::from(x.values[32 * block + i])).sum();
        let (w, d, sum) = (f16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]])), x.scales[block], sum as f32);
        let (a, b) = if rules.scales_first { (w * d, sum) } else { (w * sum, d) };
        let lane = &mut lanes[block % rules.lanes];
        *lane = if rules.fused { a.mul_add(b, *lane) } else { a * b + *lane };
    }
    if !rules.by_halves {
        return lanes.into_iter().reduce(|sum, lane| sum + lane).unwrap();
    }
    while lanes.len() > 1 {
        let high = lanes.split_off(lanes.len() / 2);
        lanes.iter_mut().zip(high).for_each(|(low, high)| *low += high);
    }
    lanes[0]
}

/// Whether the golden vectors agree with `rules`.
fn agrees(rules: Rules) -> bool {
    let cases: Vec<_> = golden_of("dot").into_iter().filter(|case| format(case) == WeightFormat::Q8_0).collect();
    assert!(cases.len() >= 3);
    cases.iter().all(|case| {
        let found = q8_0(&bytes(case, "row"), &floats(case, "x"), rules);
        canonical_bits(&[found]) == canonical_bits(&floats(case, "out"))
    })
}

#[test]
fn a_changed_rule_of_the_quantized_product_is_noticed() {
    assert!(agrees(CONTRACT));
    assert!(!agrees(Rules { lanes: 1, ..CONTRACT }), "one running sum");
    assert!(!agrees(Rules { lanes: 4, ..CONTRACT }), "four lanes");
    assert!(!agrees(Rules { lanes: 16, ..CONTRACT }), "sixteen lanes");
    assert!(!agrees(Rules { fused: false, ..CONTRACT }), "multiply, then add");
    assert!(!agrees(Rules { by_halves: false, ..CONTRACT }), "lanes combined one after another");
    assert!(!agrees(Rules { scales_first: false, ..CONTRACT }), "weight scale times sum first");
}

/// Attention in chunks of `chunk` keys with one merge rule.
fn attention_in_chunks(case: &Vector, chunk: usize) -> Vec<f32> {
    let (query, keys, values) = (floats(case, "query"), floats(case, "keys"), floats(case, "values"));
    let (size, scale) = (query.len(), 1.0 / (query.len() as f32).sqrt());
    let (mut most, mut sum, mut out) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; size]);
    for (keys, values) in keys.chunks(chunk * size).zip(values.chunks(chunk * size)) {
        let score = |key: &[f32]| scale * query.iter().zip(key).fold(0.0f32, |sum, (q, k)| q.mul_add(*k, sum));
        let scores: Vec<f32> = keys.chunks(size).map(score).collect();
        let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut lanes: Vec<f32> = scores.iter().map(|score| exp(score - maximum)).collect();
        let mut weighted = vec![0.0f32; size];
        for (p, value) in lanes.iter().zip(values.chunks(size)) {
            weighted.iter_mut().zip(value).for_each(|(sum, v)| *sum = p.mul_add(*v, *sum));
        }
        lanes.resize(chunk.next_power_of_two(), 0.0);
        while lanes.len() > 1 {
            let high = lanes.split_off(lanes.len() / 2);
            lanes.iter_mut().zip(high).for_each(|(low, high)| *low += high);
        }
        let greater = most.max(maximum);
        // The first chunk is scaled by exp(0) = 1 and added to zeros, which changes nothing.
        let (before, now) = (exp(most - greater), exp(maximum - greater));
        out.iter_mut().zip(&weighted).for_each(|(out, sum)| *out = out.mul_add(before, sum * now));
        (most, sum) = (greater, sum.mul_add(before, lanes[0] * now));
    }
    out.iter().map(|out| out / sum).collect()
}

#[test]
fn another_chunk_size_of_attention_is_noticed() {
    let agrees = |chunk| {
        golden_of("attention")
            .iter()
            .all(|case| canonical_bits(&attention_in_chunks(case, chunk)) == canonical_bits(&floats(case, "out")))
    };
    assert!(agrees(32));
    assert!(!agrees(16));
    assert!(!agrees(64));
    assert!(!agrees(128), "one pass over all keys");
}

#[test]
fn an_unfused_norm_is_noticed() {
    let differs = golden_of("rms_norm").iter().any(|case| {
        let x = floats(case, "x");
        let squares: f32 = x.iter().map(|x| x * x).sum();
        let scale = 1.0 / (squares / x.len() as f32 + floats(case, "epsilon")[0]).sqrt();
        let out: Vec<f32> = x.iter().zip(floats(case, "weight")).map(|(x, weight)| x * scale * weight).collect();
        canonical_bits(&out) != canonical_bits(&floats(case, "out"))
    });
    assert!(differs);
}
