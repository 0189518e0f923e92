//! What a report tells of captures: what was recorded, what their steps show in bounded memory, and the worst of these.

mod recorded;
mod steps;
mod thinned;
mod worst;

pub use self::recorded::{Fact, Recorded, guarantees, made_by};
pub use self::steps::{Cell, Lengths, Mark, Populations, Series, StepFacts};
pub use self::thinned::Thinned;
pub use self::worst::{Worst, WorstStep};
