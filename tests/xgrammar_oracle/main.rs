//! llguidance and XGrammar, which share no code, held against each other; and XGrammar against itself and against vLLM.
//!
//! `cargo test --features xgrammar --test xgrammar_oracle`. What the two do otherwise is written out in [`differences`], and
//! each difference has a test that shows it.

mod captures;
mod differences;
mod documents;
mod masks;
mod names;
#[allow(dead_code, reason = "each test binary uses a part of it")]
#[path = "../support/recorded.rs"]
mod recorded;
mod recording;
mod rollback;
#[allow(dead_code, reason = "another test's, which uses all of it")]
#[path = "../grammar/support.rs"]
mod support;
mod tools;

use stepscope::grammar::{Backend, GrammarSettings, Whitespace};

/// Settings that both libraries can follow.
fn settings(backend: Backend, whitespace: Whitespace) -> GrammarSettings {
    GrammarSettings { backend, canonical_tokens: false, whitespace, as_vllm: false }
}

/// As vLLM hands constraints over.
fn as_vllm() -> GrammarSettings {
    GrammarSettings { as_vllm: true, ..settings(Backend::Xgrammar, Whitespace::Any) }
}
