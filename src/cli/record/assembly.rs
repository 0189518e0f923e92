//! From the settings to an engine.

use std::sync::Arc;

use super::header;
use super::settings::{Settings, Sizes};
use super::speculation::{self, Drafting};
use crate::backend::{self, Backend, BackendOptions};
use crate::capture::records::Header;
use crate::engine::drafter::Drafter;
use crate::engine::{Clock, Engine, EngineConfig, Tap};
use crate::exchange::{Grammars, Preparation};
use crate::model::Model;

/// The parts of an engine, all of them opened and checked.
pub(in crate::cli) struct Assembly {
    /// The header of what is recorded of the engine.
    pub header: Header,
    sizes: Sizes,
    backend: Box<dyn Backend>,
    config: EngineConfig,
    drafting: Drafting,
}

impl Assembly {
    /// # Errors
    /// If the settings do not fit the model or the machine.
    pub fn new(settings: &Settings, model: &Model, clock: &Clock) -> anyhow::Result<Self> {
        Self::with_room(settings, model, clock, settings.speculation.room())
    }

    /// As [`new`](Self::new), with room for that many drafts of a step, whatever the settings ask for.
    ///
    /// # Errors
    /// As of `new`.
    pub fn with_room(settings: &Settings, model: &Model, clock: &Clock, drafts: usize) -> anyhow::Result<Self> {
        let sizes = settings.sizes(&model.config)?;
        let backend = backend::open(
            settings.backend,
            model,
            &BackendOptions {
                threads: settings.threads,
                isa: settings.isa,
                kv_type: settings.kv_type,
                pages: sizes.pages,
                state_slots: settings.max_batch,
                snapshots: sizes.pages,
                drafts,
                sketches: settings.sketches,
            },
        )?;
        let config = EngineConfig {
            max_batch: settings.max_batch,
            prefill_chunk: settings.prefill_chunk,
            prefix_cache: settings.prefix_cache,
            context_length: sizes.context_length,
        };
        config.check(&backend.capacity())?;
        let drafting = speculation::open(settings, &sizes, model)?;
        let header = header::header(settings, &sizes, model, &backend.device(), &drafting, clock);
        Ok(Self { header, sizes, backend, config, drafting })
    }

    /// What turns requests into submissions to the engine.
    ///
    /// # Errors
    /// If the model recommends or lacks what every request needs.
    pub fn preparation<'a>(
        &self,
        settings: &Settings,
        model: &'a Model,
        clock: &Clock,
    ) -> anyhow::Result<Preparation<'a>> {
        let grammars = Grammars::new(model, settings.grammar, settings.reasoning_end.as_deref())?;
        let overrides = settings.overrides.clone();
        Ok(settings.apply(Preparation::new(model, grammars, overrides, self.sizes.context_length, clock)?))
    }

    /// The drafter of other settings for the same engine.
    ///
    /// # Errors
    /// If it does not fit the model.
    pub fn drafter(&self, settings: &Settings, model: &Model) -> anyhow::Result<Box<dyn Drafter>> {
        Ok(speculation::open(settings, &self.sizes, model)?.drafter)
    }

    /// The engine, reporting to `tap`.
    ///
    /// # Errors
    /// If the parts do not fit each other.
    pub fn engine<T: Tap>(self, settings: &Settings, model: &Model, clock: Clock, tap: T) -> anyhow::Result<Engine<T>> {
        let engine = Engine::new(self.backend, Arc::clone(&model.tokenizer), self.config, clock, tap)?;
        let engine = engine.speculate(self.drafting.drafter, settings.speculation.speculation())?;
        Ok(match settings.inject {
            Some(fault) => engine.inject(fault),
            None => engine,
        })
    }
}
