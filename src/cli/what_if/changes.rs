//! `--set KEY=VALUE`: what is changed, and what can be.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value};

use crate::cli::record::Options;
use crate::engine::faults::Fault;
use crate::params::SAMPLING_FIELDS;
use crate::types::TokenId;

/// Sampling fields that cannot change in the middle of an answer: how many there are, and what is told of it.
const FIXED: [&str; 4] = ["n", "logprobs", "top_logprobs", "max_completion_tokens"];
/// Flags of `record` that can.
const SETTINGS: [&str; 8] = [
    "drafter",
    "drafts",
    "draft-model",
    "draft-script",
    "scheduling",
    "verify-rule",
    "grammar-backend",
    "grammar-canonical",
];
const GRAMMAR: &str = "grammar";
const INJECT: &str = "inject";
const TOKEN: &str = "token";

/// What is changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// As they were given.
    pub(super) given: Vec<(String, String)>,
    /// Fields of the request.
    pub(super) sampling: Map<String, Value>,
    /// Settings of the engine.
    pub(super) settings: toml::Table,
    /// Whether the output is constrained.
    pub(super) grammar: Option<bool>,
    /// The planted fault; none, for the end of the one that is planted.
    pub(super) fault: Option<Option<Fault>>,
    /// The token that comes next.
    pub(super) token: Option<TokenId>,
}

impl Changes {
    /// Reads them.
    ///
    /// # Errors
    /// If one has no `=`, an unknown key, a key that was given before, or a value that is not accepted. Values of sampling fields are
    /// read with the request.
    pub(super) fn read(sets: &[String]) -> anyhow::Result<Self> {
        let mut changes = Self::default();
        for set in sets {
            let (key, value) = set.split_once('=').with_context(|| format!("--set {set}: expected KEY=VALUE"))?;
            let key = canonical(key);
            ensure!(changes.given.iter().all(|(other, _)| *other != key), "--set {key}: is given twice");
            changes.add(&key, value).with_context(|| format!("--set {set}"))?;
            changes.given.push((key, value.to_owned()));
        }
        Ok(changes)
    }

    fn add(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        match key {
            GRAMMAR => {
                self.grammar = Some(match value {
                    "on" => true,
                    "off" => false,
                    _ => bail!("accepted: on, off; found: {value}"),
                });
            }
            INJECT => {
                self.fault = Some(match value {
                    "none" => None,
                    name => Some(name.parse().context("accepted: none, or a fault")?),
                });
            }
            TOKEN => {
                let token = value.parse().ok().context("accepted: a token's id, a whole number")?;
                self.token = Some(TokenId(token));
            }
            key if SETTINGS.contains(&key) => {
                let number = value.parse().ok().filter(|_| key == "drafts").map(toml::Value::Integer);
                let entry = (key.to_owned(), number.unwrap_or_else(|| value.into()));
                let alone: toml::Table = [entry.clone()].into_iter().collect();
                alone.try_into::<Options>().map_err(|error| anyhow::anyhow!("{}", error.message()))?;
                self.settings.extend([entry]);
            }
            key if is_sampling(key) => {
                // What is no JSON is a text: `--set stop=end`.
                let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                self.sampling.insert(key.to_owned(), value);
            }
            key => bail!("{key:?} cannot be changed; accepted: {}", keys().collect::<Vec<_>>().join(", ")),
        }
        Ok(())
    }

    /// Whether the grammar is another one, so that it begins anew.
    pub(super) fn changes_grammar(&self) -> bool {
        self.grammar.is_some() || self.settings.keys().any(|key| key.starts_with(GRAMMAR))
    }
}

fn is_sampling(key: &str) -> bool {
    SAMPLING_FIELDS.contains(&key) && !FIXED.contains(&key)
}

fn keys() -> impl Iterator<Item = &'static str> {
    let sampling = SAMPLING_FIELDS.iter().copied().filter(|key| is_sampling(key));
    sampling.chain(SETTINGS).chain([GRAMMAR, INJECT, TOKEN])
}

/// A key as the protocol or `record` spells it.
fn canonical(key: &str) -> String {
    let dashed = key.replace('_', "-");
    if SETTINGS.contains(&dashed.as_str()) { dashed } else { key.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sets: &[&str]) -> anyhow::Result<Changes> {
        Changes::read(&sets.iter().map(|&set| set.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn keys_are_fields_settings_and_three_more() {
        let sets =
            ["top_k=3", "stop=end", "verify_rule=rejection", "drafts=7", "grammar=off", "token=12", "inject=none"];
        let changes = read(&sets).unwrap();
        assert_eq!(Value::Object(changes.sampling.clone()), json!({"top_k": 3, "stop": "end"}));
        assert_eq!(changes.settings, "verify-rule = 'rejection'\ndrafts = 7".parse::<toml::Table>().unwrap());
        assert_eq!((changes.grammar, changes.token, changes.fault), (Some(false), Some(TokenId(12)), Some(None)));
        assert!(changes.changes_grammar() && !read(&["seed=1"]).unwrap().changes_grammar());
    }

    #[test]
    fn what_cannot_be_changed_is_told_with_what_can() {
        let told = |sets: &[&str]| format!("{:#}", read(sets).unwrap_err());
        for key in ["n=2", "temprature=0", "threads=2"] {
            assert!(told(&[key]).contains("accepted: temperature, "), "{}", told(&[key]));
        }
        assert!(told(&["drafts"]).contains("KEY=VALUE"));
        assert!(told(&["drafts=0"]).contains("--set drafts=0"), "{}", told(&["drafts=0"]));
        assert!(told(&["scheduling=later"]).contains("sync"), "{}", told(&["scheduling=later"]));
        assert!(told(&["seed=1", "seed=2"]).contains("twice"));
        assert!(told(&["inject=nothing"]).contains("none, or a fault"));
        assert!(told(&["token=x"]).contains("whole number"));
    }
}
