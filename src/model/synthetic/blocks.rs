//! Random matrices, generated directly in their stored form.

use std::io;

use half::{bf16, f16};

use crate::arith::{WeightFormat, scalar};

/// A stream of random numbers: Philox under one key, one counter after the other.
pub(super) struct Random {
    key: u64,
    stream: u32,
    counter: u32,
    left: Vec<u32>,
}

impl Random {
    pub(super) fn new(seed: u64, stream: u32) -> Self {
        Self { key: seed, stream, counter: 0, left: Vec::new() }
    }

    fn word(&mut self) -> u32 {
        if let Some(word) = self.left.pop() {
            return word;
        }
        let [last, others @ ..] = scalar::philox(self.key, [self.counter, self.stream, 0, u32::MAX]);
        self.counter = self.counter.wrapping_add(1);
        self.left.extend(others);
        last
    }

    /// A whole number of `low..=high`.
    fn within(&mut self, low: i32, high: i32) -> i32 {
        let count = i64::from(high) - i64::from(low) + 1;
        let offset = (u64::from(self.word()) * count.cast_unsigned()) >> 32;
        low + offset as i32
    }

    /// Close to a normal deviate of mean 0 and deviation 1: a sum of four uniforms, which needs no library function.
    pub(super) fn normal(&mut self) -> f32 {
        // The variance of four uniforms of width 1 is 1/3.
        const SCALE: f64 = 1.732_050_807_568_877_2;
        let sum = (0..4).map(|_| scalar::uniform(self.word()) - 0.5).sum::<f64>();
        (sum * SCALE) as f32
    }

    /// A factor around 1, so that blocks have scales of their own.
    fn jitter(&mut self) -> f32 {
        self.within(80, 125) as f32 / 100.0
    }
}

/// The bytes of a random matrix whose elements have mean 0 and about this deviation.
pub(super) fn matrix(
    random: &mut Random,
    format: WeightFormat,
    rows: usize,
    columns: usize,
    deviation: f32,
) -> io::Result<Vec<u8>> {
    let row_bytes = format
        .row_bytes(columns)
        .ok_or_else(|| io::Error::other(format!("{columns} columns are no whole number of {format} blocks")))?;
    let mut bytes = Vec::with_capacity(rows * row_bytes);
    for _ in 0..rows * columns / format.block_elements() {
        match format {
            WeightFormat::F32 => bytes.extend((deviation * random.normal()).to_le_bytes()),
            WeightFormat::F16 => bytes.extend(f16::from_f32(deviation * random.normal()).to_le_bytes()),
            WeightFormat::Bf16 => bytes.extend(bf16::from_f32(deviation * random.normal()).to_le_bytes()),
            WeightFormat::Q4_0 => q4_0(random, deviation, &mut bytes),
            WeightFormat::Q4_1 => q4_1(random, deviation, &mut bytes),
            WeightFormat::Q8_0 => q8_0(random, deviation, &mut bytes),
            WeightFormat::Q4K => q4_k(random, deviation, &mut bytes),
            WeightFormat::Q6K => q6_k(random, deviation, &mut bytes),
        }
    }
    Ok(bytes)
}

/// Deviation of a whole number that is uniform over `count` values.
fn uniform_deviation(count: f32) -> f32 {
    ((count * count - 1.0) / 12.0).sqrt()
}

fn put_f16(bytes: &mut Vec<u8>, value: f32) {
    bytes.extend(f16::from_f32(value).to_le_bytes());
}

/// Two values of 1 to 15 in a byte.
fn nibbles(random: &mut Random) -> u8 {
    (random.within(1, 15) | random.within(1, 15) << 4) as u8
}

fn q4_0(random: &mut Random, deviation: f32, bytes: &mut Vec<u8>) {
    put_f16(bytes, deviation / uniform_deviation(15.0) * random.jitter());
    bytes.extend((0..16).map(|_| nibbles(random)));
}

fn q4_1(random: &mut Random, deviation: f32, bytes: &mut Vec<u8>) {
    let scale = deviation / uniform_deviation(15.0) * random.jitter();
    put_f16(bytes, scale);
    put_f16(bytes, -8.0 * scale * random.jitter());
    bytes.extend((0..16).map(|_| nibbles(random)));
}

fn q8_0(random: &mut Random, deviation: f32, bytes: &mut Vec<u8>) {
    put_f16(bytes, deviation / uniform_deviation(255.0) * random.jitter());
    bytes.extend((0..32).map(|_| random.within(-127, 127) as u8));
}

/// 8 sub-blocks with 6-bit scales and minima, packed as in GGUF: the first four pairs in the low 6 bits of bytes 0-3
/// and 4-7, the low halves of the others in bytes 8-11, their high bits on top of bytes 0-7.
fn q4_k(random: &mut Random, deviation: f32, bytes: &mut Vec<u8>) {
    let scales: [u8; 8] = std::array::from_fn(|_| random.within(32, 63) as u8);
    let minima = scales.map(|scale| (i32::from(scale) + random.within(-6, 0)) as u8);
    let scale = deviation / uniform_deviation(15.0) / 48.0;
    put_f16(bytes, scale);
    put_f16(bytes, 8.5 * scale);
    let mut packed = [0_u8; 12];
    for index in 0..4 {
        packed[index] = scales[index] | scales[index + 4] >> 4 << 6;
        packed[index + 4] = minima[index] | minima[index + 4] >> 4 << 6;
        packed[index + 8] = scales[index + 4] & 15 | (minima[index + 4] & 15) << 4;
    }
    bytes.extend(packed);
    bytes.extend((0..128).map(|_| nibbles(random)));
}

/// Values of 6 bits around 32, low halves and high bits apart, then 16 signed scales of both signs.
fn q6_k(random: &mut Random, deviation: f32, bytes: &mut Vec<u8>) {
    bytes.extend((0..128 + 64).map(|_| random.word() as u8));
    for _ in 0..16 {
        let sign = if random.within(0, 1) == 0 { -1 } else { 1 };
        bytes.push((sign * random.within(64, 127)) as u8);
    }
    put_f16(bytes, deviation / uniform_deviation(64.0) / 96.0);
}
