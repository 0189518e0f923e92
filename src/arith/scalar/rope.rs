//! Rotary position embeddings.

use super::super::{ArithError, RopeLayout};
use super::{cos, pow, sin, vectorized};

/// The frequency of every pair of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTable {
    frequencies: Vec<f64>,
}

/// The rotation of every pair of a head at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// Cosine per pair.
    pub cosines: Vec<f32>,
    /// Sine per pair.
    pub sines: Vec<f32>,
}

impl RopeTable {
    /// Pair i turns by `theta^(-2i / head_size) / factor[i]` radians per position.
    ///
    /// # Errors
    /// If `theta` is not a finite number of at least 1, `head_size` is odd or 0, or the factors are not one positive
    /// finite number per pair.
    pub fn new(theta: f64, head_size: usize, frequency_factors: Option<&[f32]>) -> Result<Self, ArithError> {
        if !(theta.is_finite() && theta >= 1.0) {
            return Err(ArithError::Rope { expected: "a finite base of at least 1", found: theta.to_string() });
        }
        if head_size == 0 || !head_size.is_multiple_of(2) {
            return Err(ArithError::Rope { expected: "an even head size above 0", found: head_size.to_string() });
        }
        let pairs = head_size / 2;
        if let Some(factors) = frequency_factors {
            if factors.len() != pairs {
                let found = format!("{} for {pairs} pairs", factors.len());
                return Err(ArithError::Rope { expected: "one frequency factor per pair", found });
            }
            if let Some(factor) = factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
                let expected = "finite frequency factors above 0";
                return Err(ArithError::Rope { expected, found: factor.to_string() });
            }
        }
        let frequencies = (0..pairs)
            .map(|pair| {
                let frequency = pow(theta, -((2 * pair) as f64 / head_size as f64));
                frequency_factors.map_or(frequency, |factors| frequency / f64::from(factors[pair]))
            })
            .collect();
        Ok(Self { frequencies })
    }

    /// Elements of a head.
    pub fn head_size(&self) -> usize {
        2 * self.frequencies.len()
    }

    /// The rotation at `position`.
    pub fn rotation(&self, position: u32) -> Rotation {
        let mut rotation =
            Rotation { cosines: vec![0.0; self.frequencies.len()], sines: vec![0.0; self.frequencies.len()] };
        angles(&self.frequencies, position, &mut rotation.cosines, &mut rotation.sines);
        rotation
    }

    /// Turns one head by the rotation at `position`; to turn several, take the [`Self::rotation`] once.
    ///
    /// # Panics
    /// If `head` is not of [`Self::head_size`].
    pub fn rotate(&self, layout: RopeLayout, position: u32, head: &mut [f32]) {
        self.rotation(position).apply(layout, head);
    }
}

impl Rotation {
    /// Turns one head.
    ///
    /// # Panics
    /// If `head` is not two elements per pair.
    pub fn apply(&self, layout: RopeLayout, head: &mut [f32]) {
        turn_pairs(layout, &self.cosines, &self.sines, head);
    }
}

vectorized! {
    /// Turns pair i by the angle with cosine `cosines[i]` and sine `sines[i]`.
    fn turn_pairs(layout: RopeLayout, cosines: &[f32], sines: &[f32], head: &mut [f32]) {
        let pairs = cosines.len();
        assert_eq!(head.len(), 2 * pairs, "elements of a head of {pairs} pairs");
        let turns = cosines.iter().zip(sines);
        match layout {
            RopeLayout::Interleaved => {
                for ([a, b], (cosine, sine)) in head.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                    (*a, *b) = turn(*a, *b, *cosine, *sine);
                }
            }
            RopeLayout::Halves => {
                let (first, second) = head.split_at_mut(pairs);
                for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(turns) {
                    (*a, *b) = turn(*a, *b, *cosine, *sine);
                }
            }
        }
    }
}

#[inline(always)]
fn turn(a: f32, b: f32, cosine: f32, sine: f32) -> (f32, f32) {
    (a.mul_add(cosine, -(b * sine)), a.mul_add(sine, b * cosine))
}

vectorized! {
    /// Cosines and sines of `position * frequency`, rounded to f32.
    fn angles(frequencies: &[f64], position: u32, cosines: &mut [f32], sines: &mut [f32]) {
        for ((frequency, cosine), sine) in frequencies.iter().zip(cosines).zip(sines) {
            let angle = f64::from(position) * frequency;
            *cosine = cos(angle) as f32;
            *sine = sin(angle) as f32;
        }
    }
}
