//! What may be expected of each check, before anything is computed.

use std::collections::BTreeMap;
use std::fmt;

use super::redaction;
use super::verdict::{CheckName, Skip};
use crate::arith::{self, KvType};
use crate::capture::records::{FORMAT_VERSION, Header, LogitsTier};
use crate::grammar::{Backend, HOW_TO_BUILD};
use crate::hash::{Comparison, compare};
use crate::model::{Model, Tokenizer};

/// How far a check reaches on this capture, with this model, in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Bit for bit.
    Exact,
    /// Values agree as far as the rules of the engine that recorded are known.
    WithinTolerance,
    /// Only the order of tokens can be compared.
    RankOnly,
    /// Nothing can be checked.
    None,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Exact => "exact",
            Self::WithinTolerance => "within tolerance",
            Self::RankOnly => "rank only",
            Self::None => "none",
        })
    }
}

/// What holds for one check, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// Name of the capture, as given.
    pub capture: String,
    /// The check.
    pub check: CheckName,
    /// How far it reaches.
    pub level: Level,
    /// Why, in words.
    pub why: String,
}

/// Another model than the one that was recorded.
#[derive(Debug, thiserror::Error)]
#[error(
    "{capture} was recorded with a model whose {algorithm} is {expected}, and {path} has {found}: \
     give the recorded model, `{name}`, with --model"
)]
pub struct WrongModel {
    /// Name of the capture.
    pub capture: String,
    /// How both hashes were computed.
    pub algorithm: String,
    /// The recorded hash.
    pub expected: String,
    /// The model that was given.
    pub path: String,
    /// Its hash.
    pub found: String,
    /// The recorded name.
    pub name: String,
}

/// Why a capture cannot be replayed with what was given.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The model is another one.
    #[error(transparent)]
    WrongModel(#[from] Box<WrongModel>),
    /// A format this build does not read.
    #[error("{capture} has format version {found}; this build reads up to {FORMAT_VERSION}")]
    Format {
        /// Name of the capture.
        capture: String,
        /// Its version.
        found: u32,
    },
}

/// The result of the comparison of a capture's header with this machine.
#[derive(Clone, Debug)]
pub struct Preflight {
    /// One per check.
    pub guarantees: Vec<Guarantee>,
    /// Whether the engine that recorded follows the rules of this repository.
    pub(crate) own_rules: bool,
    /// Why rows cannot be computed here as they were there.
    pub(super) other_arithmetic: Option<Skip>,
    /// Checks that cannot run at all, and why.
    pub(super) blocked: BTreeMap<CheckName, Skip>,
    no_model: Skip,
}

/// The rules of sampling and acceptance that this repository defines.
const OWN_RULES: &str = "stepscope";
/// Those of vLLM: trimmed and padded drafts, greedy verification, masks before everything else.
const VLLM_RULES: &str = "vllm";

impl Preflight {
    /// Compares `header` with `model` and this build. `no_model` says why there is no model, if there is none.
    ///
    /// # Errors
    /// If the model is another one than the recorded one, or the capture's format is not known.
    pub fn new(capture: &str, header: &Header, model: Option<&Model>, no_model: &str) -> Result<Self, PreflightError> {
        if !(1..=FORMAT_VERSION).contains(&header.format_version) {
            return Err(PreflightError::Format { capture: capture.to_owned(), found: header.format_version });
        }
        let facts = Facts::gather(capture, header, model)?;
        let no_model = Skip::missing(no_model.to_owned());
        let mut preflight = Self {
            guarantees: Vec::new(),
            own_rules: facts.own_rules,
            other_arithmetic: facts.arithmetic.clone().err().map(Skip::missing),
            blocked: BTreeMap::new(),
            no_model,
        };
        for check in CheckName::ALL {
            let (level, why) = preflight.judge(check, header, model, &facts);
            preflight.guarantees.push(Guarantee { capture: capture.to_owned(), check, level, why });
        }
        Ok(preflight)
    }

    /// Why there is no model.
    pub(super) fn no_model(&self) -> Skip {
        self.no_model.clone()
    }

    fn judge(&mut self, check: CheckName, header: &Header, model: Option<&Model>, facts: &Facts) -> (Level, String) {
        let block = |preflight: &mut Self, skip: Skip| {
            let why = skip.reason.clone().into_owned();
            preflight.blocked.insert(check, skip);
            (Level::None, why)
        };
        if let Some(skip) = redaction::blocks(check, header) {
            return block(self, skip);
        }
        let foreign = || Skip::not_recorded(format!("the rules of `{}` are not known here", header.sampler_semantics));
        let tier = header.logits_tier;
        match check {
            CheckName::Prompt if model.is_none() => block(self, self.no_model()),
            CheckName::Prompt => match &facts.text {
                Ok(why) => (Level::Exact, why.clone()),
                Err(why) => block(self, Skip::missing(why.clone())),
            },
            CheckName::Params if !facts.own_rules => block(self, foreign()),
            CheckName::Params => (Level::Exact, "resolution is a table of the protocol".to_owned()),
            CheckName::Validity => {
                (Level::Exact, "from the recorded statistics and every row that can be had".to_owned())
            }
            CheckName::Logits => match (tier, model, &facts.arithmetic) {
                (LogitsTier::Off, ..) => block(self, Skip::not_recorded("the capture's tier `off` keeps no rows")),
                (LogitsTier::TopK, ..) => {
                    (Level::RankOnly, "the capture's tier `topk` keeps the best of each row".to_owned())
                }
                (LogitsTier::Hidden, None, _) => block(self, self.no_model()),
                (_, _, Err(why)) => block(self, Skip::missing(why.clone())),
                (_, _, Ok(why)) => (Level::Exact, why.clone()),
            },
            CheckName::Forward => match (model, &facts.arithmetic, recorded_kv_type(header)) {
                (None, ..) => block(self, self.no_model()),
                (_, Err(why), _) => block(self, Skip::missing(why.clone())),
                (_, _, Err(skip)) => block(self, skip),
                (_, Ok(why), Ok(_)) => (Level::Exact, why.clone()),
            },
            CheckName::Sampler => match (tier, facts.own_rules, &facts.arithmetic) {
                (LogitsTier::TopK, ..) => {
                    (Level::RankOnly, "tier `topk` keeps the best of each row: the token was among them".to_owned())
                }
                (LogitsTier::Off, ..) => (Level::RankOnly, "tier `off` keeps no rows: greedy tokens alone".to_owned()),
                (_, false, _) => (Level::WithinTolerance, format!("{}: the token was possible", foreign().reason)),
                (LogitsTier::Hidden, true, _) if model.is_none() => {
                    (Level::RankOnly, self.no_model().reason.into_owned())
                }
                (_, true, Err(why)) => (Level::RankOnly, why.clone()),
                (_, true, Ok(why)) => (Level::Exact, why.clone()),
            },
            CheckName::Drafts if header.sampler_semantics == VLLM_RULES => {
                (Level::WithinTolerance, "from what was proposed, and the grammar where it can be followed".to_owned())
            }
            CheckName::Drafts if !facts.own_rules => block(self, foreign()),
            CheckName::Drafts => (Level::Exact, "from the tokens, and the draft model where there was one".to_owned()),
            CheckName::Accept if !facts.own_rules => {
                (Level::WithinTolerance, format!("{}: verdicts against tokens alone", foreign().reason))
            }
            CheckName::Accept => (Level::Exact, "from drafts and tokens; odds as far as the row is exact".to_owned()),
            CheckName::Masks if model.is_none() => block(self, self.no_model()),
            CheckName::Masks => match &facts.grammar {
                Ok(why) => (Level::Exact, why.clone()),
                Err(why) => block(self, Skip::missing(why.clone())),
            },
            CheckName::AppliedMask => (Level::Exact, "from the recorded masks".to_owned()),
            CheckName::Commit if model.is_none() => {
                (Level::Exact, format!("but for the text of answers: {}", self.no_model().reason))
            }
            CheckName::Commit => (Level::Exact, "from the step records".to_owned()),
            CheckName::Termination => (Level::Exact, "from the tokens and the parameters".to_owned()),
            CheckName::Signs => (Level::Exact, "from the scalars that are recorded".to_owned()),
        }
    }
}

/// How the engine stored keys and values, by the header's configuration.
///
/// # Errors
/// If it does not say, or names a type that is not known here: the forward pass cannot be run again then.
pub fn recorded_kv_type(header: &Header) -> Result<KvType, Skip> {
    let setting = header.configuration.iter().find(|setting| setting.name == "kv-type");
    match setting.map(|setting| setting.value.trim_matches('"')) {
        Some("f32") => Ok(KvType::F32),
        Some("f16") => Ok(KvType::F16),
        Some(other) => Err(Skip::missing(format!("keys and values were stored as `{other}`, which is not known here"))),
        None => Err(Skip::not_recorded("how keys and values were stored (`kv-type`) is not recorded")),
    }
}

/// The comparisons, each with why it holds or does not.
struct Facts {
    own_rules: bool,
    /// Rows can be computed here as they were there.
    arithmetic: Result<String, String>,
    /// Text can be rendered and tokenized here as it was there.
    text: Result<String, String>,
    /// Grammars allow here what they allowed there.
    grammar: Result<String, String>,
}

impl Facts {
    fn gather(capture: &str, header: &Header, model: Option<&Model>) -> Result<Self, PreflightError> {
        let recorded = header.model.as_ref();
        let mut arithmetic = match header.arithmetic_version {
            Some(arith::VERSION) => Ok(format!("both sides compute by arithmetic version {}", arith::VERSION)),
            Some(other) => {
                Err(format!("recorded with arithmetic version {other}, and this build computes by {}", arith::VERSION))
            }
            None => Err("the engine that recorded has no arithmetic contract".to_owned()),
        };
        let mut text = Ok("the same tokenizer and chat template".to_owned());
        let mut same_vocabulary = false;
        if let (Some(recorded), Some(model)) = (recorded, model) {
            let identity = &model.identity;
            same_vocabulary =
                matches!(compare(&recorded.tokenizer_hashes, identity.tokenizer_hashes()), Comparison::Same { .. });
            match compare(&recorded.hashes, identity.file_hashes()) {
                Comparison::Same { .. } => same_vocabulary = true,
                Comparison::Different { algorithm, recorded: expected, here } => {
                    return Err(Box::new(WrongModel {
                        capture: capture.to_owned(),
                        algorithm,
                        expected,
                        path: identity.path.display().to_string(),
                        found: here,
                        name: recorded.name.clone(),
                    })
                    .into());
                }
                Comparison::Unlike(why) => {
                    let why = format!("whether this is the recorded model cannot be told: {why}");
                    (arithmetic, text) = (Err(why.clone()), Err(why));
                }
            }
            let parts = [
                ("tokenizer", &recorded.tokenizer_hashes, identity.tokenizer_hashes()),
                ("chat template", &recorded.chat_template_hashes, identity.chat_template_hashes()),
            ];
            for (part, recorded, here) in parts {
                let differs = match compare(recorded, here) {
                    Comparison::Same { .. } => continue,
                    Comparison::Different { algorithm, recorded, here } => {
                        format!("the {part}'s {algorithm} was {recorded} and is {here} here")
                    }
                    Comparison::Unlike(_) if recorded.is_empty() && here.is_empty() => continue,
                    Comparison::Unlike(why) => format!("whether this is the recorded {part} cannot be told: {why}"),
                };
                text = text.and(Err(differs));
            }
        } else if model.is_some() {
            let why = "the capture does not say which model it was recorded with".to_owned();
            (arithmetic, text) = (Err(why.clone()), Err(why));
        }
        if let Some(other) = other_tokenizer_version(header) {
            text = text.and(Err(other));
        }
        let own_rules = header.sampler_semantics == OWN_RULES;
        Ok(Self { own_rules, arithmetic, grammar: grammars(header, &text, same_vocabulary), text })
    }
}

/// What differs, and what to do about it.
fn other_version(name: &str, recorded: &str, here: &str) -> String {
    format!("recorded with `{name}` {recorded}, and this build has {here}: record with `{name}` {here} to check this")
}

/// Another version of the library that tokenizes may tokenize otherwise.
fn other_tokenizer_version(header: &Header) -> Option<String> {
    let (name, version) = Tokenizer::COMPONENT;
    let recorded = header.components.iter().find(|component| component.name == name)?;
    (recorded.version != version).then(|| other_version(name, &recorded.version, version))
}

/// Masks are of the tokens, and where forced texts keep to the tokenizer's own tokens also of what it makes of a text.
fn grammars(header: &Header, text: &Result<String, String>, same_vocabulary: bool) -> Result<String, String> {
    let tokenizes = recorded_grammar_library(header).is_none_or(|(backend, _)| backend.has_canonical_tokens());
    match (text, same_grammar_library(header)) {
        (Err(text), Err(library)) if tokenizes || !same_vocabulary => Err(format!("{text}; {library}")),
        (Err(text), Ok(_)) if tokenizes || !same_vocabulary => Err(text.clone()),
        (_, library) => library,
    }
}

/// Another library, or another version of it, may allow other tokens.
fn same_grammar_library(header: &Header) -> Result<String, String> {
    let names = Backend::ALL.map(|backend| format!("`{}`", backend.name())).join(" or ");
    let (backend, recorded) = recorded_grammar_library(header)
        .ok_or_else(|| format!("the capture does not say that it was recorded with {names}, which are known here"))?;
    let (name, version) = backend.component();
    match (backend.is_built(), recorded == version) {
        (true, true) => Ok(format!("both sides use `{name}` {version}")),
        (true, false) => Err(other_version(name, recorded, version)),
        (false, true) => Err(format!("recorded with `{name}` {version}, which this build lacks; {HOW_TO_BUILD}")),
        (false, false) => Err(format!(
            "recorded with `{name}` {recorded}, and this build lacks the library, of which {version} can be had"
        )),
    }
}

/// The grammar library that a capture was recorded with, and its version there.
pub(super) fn recorded_grammar_library(header: &Header) -> Option<(Backend, &str)> {
    header.components.iter().find_map(|component| {
        let backend = Backend::ALL.into_iter().find(|backend| backend.name() == component.name)?;
        Some((backend, component.version.as_str()))
    })
}
