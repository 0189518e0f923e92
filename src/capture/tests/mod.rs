//! The format's promises, tested on whole files.

mod batches;
mod columns;
mod conditions;
mod damage;
mod foreign;
mod golden;
mod random;
mod reading;
mod recording;
mod recovery;
mod round_trip;
mod samples;
mod seeds;
mod sketches;
mod support;
mod verifying;
