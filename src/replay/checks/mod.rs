//! The checks, one file each.

pub(super) mod accept;
pub(super) mod applied_mask;
pub(super) mod commit;
pub(super) mod drafts;
pub(super) mod forward;
pub(super) mod logits;
pub(super) mod masks;
pub(super) mod params;
pub(super) mod prompt;
pub(super) mod sampler;
pub(super) mod seeds;
pub(super) mod signs;
pub(super) mod sketches;
pub(super) mod termination;
pub(super) mod validity;
pub(super) mod whole;
