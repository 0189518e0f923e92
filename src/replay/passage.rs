//! What a row passes through, operation by operation, in sketches: the first that differs is where it went wrong.

use std::fmt;

use crate::arith::{ActivationRow, Sketch, scalar};
use crate::capture::records::SketchRecord;

/// The sketch of what one operation gave, computed here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passage {
    pub(crate) layer: Option<usize>,
    pub(crate) operation: &'static str,
    pub(crate) sketch: Sketch,
}

/// The first operation whose recorded sketch is another than the one computed here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure<'a> {
    pub(crate) expected: &'a Passage,
    pub(crate) found: &'a SketchRecord,
    /// How many operations after it differ, too.
    pub(crate) later: usize,
}

impl Passage {
    pub(crate) fn new(layer: Option<usize>, operation: &'static str, output: &[f32]) -> Self {
        Self { layer, operation, sketch: scalar::sketch(output) }
    }

    /// Whether the record is of the same operation.
    pub(crate) fn is_of(&self, recorded: &SketchRecord) -> bool {
        recorded.operation == self.operation && recorded.layer == self.layer.map(|layer| layer as u32)
    }

    /// Whether the record says the same of it.
    fn agrees(&self, recorded: &SketchRecord) -> bool {
        self.is_of(recorded) && is_same(&self.sketch, &recorded.values)
    }

    /// Its place, in words.
    pub(crate) fn name(&self) -> String {
        named(self.layer, self.operation)
    }
}

/// Compares what a row passes through here with what is recorded of it, as far as both go.
pub(crate) fn departure<'a>(passage: &'a [Passage], recorded: &'a [SketchRecord]) -> Option<Departure<'a>> {
    let mut differing = passage.iter().zip(recorded).filter(|(passage, recorded)| !passage.agrees(recorded));
    let (expected, found) = differing.next()?;
    Some(Departure { expected, found, later: differing.count() })
}

/// An operation's place, in words.
pub(crate) fn named(layer: Option<usize>, operation: &str) -> String {
    match layer {
        Some(layer) => format!("layer {layer}, {operation}"),
        None => operation.to_owned(),
    }
}

/// A sketch as captures have it: the magnitude, then the projections.
pub(crate) fn values(sketch: &Sketch) -> Vec<f32> {
    [&[sketch.magnitude], &sketch.projections[..]].concat()
}

/// Whether a recorded sketch is this one, bit for bit, any NaN equal to any other.
pub(crate) fn is_same(sketch: &Sketch, recorded: &[f32]) -> bool {
    same_floats(&values(sketch), recorded)
}

/// Whether the LM head reads the same, bit for bit, any NaN equal to any other.
pub(crate) fn same_head_inputs(a: &ActivationRow, b: &ActivationRow) -> bool {
    match (a, b) {
        (ActivationRow::Quantized(a), ActivationRow::Quantized(b)) => {
            a.values == b.values && same_floats(&a.scales, &b.scales)
        }
        (ActivationRow::Float(a), ActivationRow::Float(b)) => same_floats(a, b),
        _ => false,
    }
}

/// Bit equality, any NaN equal to any other.
pub(crate) fn same_floats(x: &[f32], y: &[f32]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_float(*x, *y))
}

/// Likewise, of one value.
pub(crate) fn same_float(x: f32, y: f32) -> bool {
    x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
}

/// The values of a sketch in words, as far as a recording may be believed to have some.
pub(crate) struct Shown<'a>(pub(crate) &'a [f32]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [magnitude, ..] if *magnitude == 0.0 => formatter.write_str("zeros alone"),
            [magnitude, projections @ ..] if projections.len() == Sketch::PROJECTIONS => {
                write!(formatter, "values up to {magnitude}, projected to {projections:?}")
            }
            values => write!(formatter, "{} values", values.len()),
        }
    }
}
