//! The grammar module on a small tokenizer and on the real one: what masks allow, and that taking tokens back leaves no
//! trace.

mod constraints;
mod differential;
mod limits;
mod reasoning;
mod schemas;
mod support;
