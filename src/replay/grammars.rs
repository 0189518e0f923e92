//! The grammars of a capture's requests, compiled as they were there.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::constraint::{self, Trace};
use super::preflight::recorded_grammar_library;
use super::verdict::Skip;
use crate::capture::records::{Admission, ConstraintRecord, Header, StepRecord};
use crate::grammar::{Grammar, GrammarFactory, GrammarSettings, Whitespace};
use crate::model::Model;

/// Grammars that are kept: requests mostly share a few.
const GRAMMARS_KEPT: usize = 64;

/// Compiles constraints once each, when a request asks for them.
pub(super) struct Grammars<'a> {
    model: Option<&'a Model>,
    settings: Result<GrammarSettings, Skip>,
    factory: OnceLock<Result<GrammarFactory, Skip>>,
    compiled: Mutex<HashMap<ConstraintRecord, Result<Grammar, Skip>>>,
}

impl<'a> Grammars<'a> {
    /// The grammars of the capture with this header. `blocked` says why none can be followed, if none can.
    pub(super) fn new(header: &Header, model: Option<&'a Model>, blocked: Option<Skip>) -> Self {
        let settings = blocked.map_or_else(|| settings(header), Err);
        Self { model, settings, factory: OnceLock::new(), compiled: Mutex::default() }
    }

    /// What the grammar of a request says of these steps; `None` for a request without one.
    pub(super) fn trace(
        &self,
        admission: &Admission,
        steps: &[StepRecord],
        forced: usize,
    ) -> Option<Result<Trace, Skip>> {
        let record = admission.constraint.as_ref()?;
        let grammar = self.grammar(record);
        Some(grammar.map(|grammar| constraint::trace(&grammar, record.begins_after, steps, forced)))
    }

    fn grammar(&self, record: &ConstraintRecord) -> Result<Grammar, Skip> {
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(record) {
            return known.clone();
        }
        let grammar = self.factory().and_then(|factory| constraint::compile(record, factory).map_err(Skip::missing));
        let mut compiled = lock();
        if compiled.len() == GRAMMARS_KEPT {
            compiled.clear();
        }
        compiled.insert(record.clone(), grammar.clone());
        grammar
    }

    fn factory(&self) -> Result<&GrammarFactory, Skip> {
        let make = || {
            let model =
                self.model.ok_or_else(|| Skip::missing("there is no model, whose tokens grammars are made of"))?;
            let settings = self.settings.clone()?;
            GrammarFactory::new(&model.tokenizer, model.config.vocabulary_size, settings)
                .map_err(|error| Skip::missing(format!("no grammars for this model: {error}")))
        };
        self.factory.get_or_init(make).as_ref().map_err(Clone::clone)
    }
}

/// What masks depend on beside constraint and tokenizer, as recorded.
fn settings(header: &Header) -> Result<GrammarSettings, Skip> {
    let value = |name: &str| {
        let setting = header.configuration.iter().find(|setting| setting.name == name);
        setting.map(|setting| setting.value.trim_matches('"'))
    };
    // No library at all blocks the check before it comes to this.
    let (backend, _) = recorded_grammar_library(header).unwrap_or_default();
    if header.sampler_semantics == "vllm" {
        // It leaves the library's defaults as they are but for white space.
        let whitespace = match value("structured_outputs.disable_any_whitespace") {
            Some("true") => Whitespace::None,
            _ => Whitespace::Any,
        };
        return Ok(GrammarSettings {
            backend,
            canonical_tokens: backend.has_canonical_tokens(),
            whitespace,
            as_vllm: true,
        });
    }
    let unknown = |name: &str| Skip::not_recorded(format!("the setting `{name}` is not recorded, or not known here"));
    let canonical_tokens = match value("grammar.canonical-tokens") {
        Some("true") => true,
        Some("false") => false,
        _ => return Err(unknown("grammar.canonical-tokens")),
    };
    let whitespace = Whitespace::ALL
        .into_iter()
        .find(|whitespace| value("grammar.whitespace") == Some(whitespace.name()))
        .ok_or_else(|| unknown("grammar.whitespace"))?;
    Ok(GrammarSettings { backend, canonical_tokens, whitespace, as_vllm: false })
}
