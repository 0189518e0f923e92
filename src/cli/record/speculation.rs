//! From the settings to a drafter.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::options::{DrafterOption, Options};
use super::settings::{Settings, Sizes};
use crate::backend::{self, BackendOptions};
use crate::capture::records::Setting;
use crate::engine::drafter::{
    Drafter, GrammarDrafter, ModelDrafter, NgramDrafter, NoDrafter, RandomDrafter, Script, ScriptedDrafter,
};
use crate::engine::sampler::VerifyRule;
use crate::engine::speculation::{Scheduling, Speculation};
use crate::model::Model;
use crate::types::TokenId;

/// How the run speculates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpeculationSettings {
    pub drafter: DrafterOption,
    /// Most drafts per step.
    pub drafts: usize,
    pub draft_model: Option<PathBuf>,
    pub draft_script: Option<PathBuf>,
    pub scheduling: Scheduling,
    pub rule: VerifyRule,
}

impl SpeculationSettings {
    /// Refuses flags that the drafter makes nothing of, and drafters without the files that they read: a forgotten flag would
    /// else pass for a result.
    pub fn check(&self, flags: &Options) -> anyhow::Result<()> {
        for (flag, is_given) in [
            ("drafts", flags.drafts.is_some()),
            ("scheduling", flags.scheduling.is_some()),
            ("verify-rule", flags.verify_rule.is_some()),
        ] {
            ensure!(
                !is_given || self.drafter != DrafterOption::None,
                "--{flag} is given, and there is no drafter, so that it changes nothing: give --drafter, or leave it out"
            );
        }
        for (flag, file, given, reader) in [
            ("draft-model", &self.draft_model, &flags.draft_model, DrafterOption::Model),
            ("draft-script", &self.draft_script, &flags.draft_script, DrafterOption::Scripted),
        ] {
            match (file, given, self.drafter == reader) {
                (None, _, true) => bail!("--{flag} is missing: this drafter reads it"),
                (_, Some(_), false) => bail!("--{flag} is given, and the drafter does not read it"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Drafts that the backend needs room for.
    pub fn room(&self) -> usize {
        if self.drafter == DrafterOption::None { 0 } else { self.drafts }
    }

    /// What the engine is told.
    pub fn speculation(&self) -> Speculation {
        Speculation { drafts: self.room(), scheduling: self.scheduling, rule: self.rule }
    }
}

/// A drafter, and what identifies it beyond the settings.
pub(super) struct Drafting {
    pub drafter: Box<dyn Drafter>,
    pub recorded: Vec<Setting>,
}

/// Makes the drafter that the settings ask for.
pub(super) fn open(settings: &Settings, sizes: &Sizes, model: &Model) -> anyhow::Result<Drafting> {
    let speculation = &settings.speculation;
    let count = speculation.drafts;
    let mut recorded = Vec::new();
    let drafter: Box<dyn Drafter> = match (speculation.drafter, &speculation.draft_model, &speculation.draft_script) {
        (DrafterOption::Ngram, ..) => Box::new(NgramDrafter::new(count)),
        (DrafterOption::Grammar, ..) => Box::new(GrammarDrafter::new(count)),
        (DrafterOption::Random, ..) => Box::new(RandomDrafter::new(count, model.config.vocabulary_size)),
        (DrafterOption::Model, Some(path), _) => {
            let draft_model = Model::load(path)?;
            recorded = identity(&draft_model);
            Box::new(open_model(settings, sizes, model, &draft_model)?)
        }
        (DrafterOption::Scripted, _, Some(path)) => {
            Box::new(ScriptedDrafter::new(read_script(path, model.config.vocabulary_size)?, count))
        }
        (DrafterOption::None | DrafterOption::Model | DrafterOption::Scripted, ..) => Box::new(NoDrafter),
    };
    Ok(Drafting { drafter, recorded })
}

/// Loads the draft model beside the model. It must read text exactly as the model does.
fn open_model(settings: &Settings, sizes: &Sizes, model: &Model, draft: &Model) -> anyhow::Result<ModelDrafter> {
    let place = || draft.identity.path.display().to_string();
    ensure!(
        draft.identity.tokenizer_hashes() == model.identity.tokenizer_hashes(),
        "{}: the draft model's tokenizer is not the model's; drafts would be other tokens than they say",
        place()
    );
    let (context, least) = (draft.config.context_length, sizes.context_length);
    ensure!(
        context >= least,
        "{}: the draft model's context holds {context} tokens, and sequences run up to {least}: give --context-length \
         {context} or less",
        place()
    );
    let pages = settings.draft_pages(&draft.config, sizes).with_context(place)?;
    let backend = backend::open(
        settings.backend,
        draft,
        &BackendOptions {
            threads: settings.threads,
            isa: settings.isa,
            kv_type: settings.kv_type,
            pages,
            state_slots: settings.max_batch,
            snapshots: settings.max_batch,
            drafts: 0,
            sketches: false,
        },
    )
    .with_context(place)?;
    Ok(ModelDrafter::new(backend, model.config.vocabulary_size, context, settings.speculation.drafts)?)
}

/// The settings that identify a draft model.
fn identity(draft: &Model) -> Vec<Setting> {
    let entry = |name: String, value: &str| Setting {
        name,
        value: serde_json::Value::from(value).to_string(),
        source: Some("file".to_owned()),
    };
    let hashes = draft.identity.file_hashes().iter();
    let hashes = hashes.map(|hash| entry(format!("draft-model.{}", hash.algorithm), &hash.hex));
    std::iter::once(entry("draft-model.name".to_owned(), &draft.identity.name)).chain(hashes).collect()
}

/// A script: JSON lines with `custom_id`, `tokens` and, for choices other than the first, `choice`.
fn read_script(path: &Path, vocabulary: usize) -> anyhow::Result<Script> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        custom_id: String,
        #[serde(default)]
        choice: Option<u32>,
        tokens: Vec<u32>,
    }
    let place = |line: usize| format!("--draft-script {}, line {line}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("--draft-script {}", path.display()))?;
    let mut script = Script::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).with_context(|| place(index + 1))?;
        if let Some(token) = line.tokens.iter().find(|token| **token as usize >= vocabulary) {
            bail!("{}: `tokens`: accepted: ids below {vocabulary}; found: {token}", place(index + 1));
        }
        let (id, choice) = (line.custom_id, line.choice.unwrap_or(0));
        if !script.insert(&id, choice, line.tokens.into_iter().map(TokenId).collect()) {
            bail!("{}: choice {choice} of `{id}` is scripted twice; accepted: once", place(index + 1));
        }
    }
    Ok(script)
}
