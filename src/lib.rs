//! Stepscope: a flight recorder and forensics workbench for LLM decoding.
//!
//! ARCHITECTURE.md has the map, the data flow and the invariants.
#![warn(missing_docs)]

pub mod arith;
pub mod backend;
pub mod built_from;
pub mod capture;
pub mod cli;
pub mod engine;
pub mod exchange;
pub mod forensics;
pub mod gates;
pub mod grammar;
pub mod hash;
pub mod incident;
pub mod model;
pub mod params;
pub mod replay;
pub mod server;
pub mod tools;
pub mod types;
