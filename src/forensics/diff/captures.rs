//! The captures as wholes: whether they can be compared, what they lack, and which settings differ.

use std::collections::BTreeMap;

use super::Capture;
use crate::capture::records::{Header, LabelledHash, ModelIdentity};
use crate::replay::gaps::Gaps;
use crate::replay::redaction::is_redacted;

/// Why captures cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// They were recorded with other models, or other tokenizers.
    #[error(
        "{} and {} cannot be compared: the {algorithm} of the {what} is {} in the one and {} in the other",
        captures[0], captures[1], found[0], found[1]
    )]
    Unlike {
        /// Names of the captures.
        captures: Box<[String; 2]>,
        /// `model` or `tokenizer`.
        what: &'static str,
        /// How both hashes were computed.
        algorithm: String,
        /// The hashes.
        found: Box<[String; 2]>,
    },
    /// Tokens of one are hashes with a salt of its own.
    #[error(
        "{capture}: its tokens are hashes (`{field}` is redacted), which are no other capture's: compare what it was packed from"
    )]
    Redacted {
        /// Name of the capture.
        capture: String,
        /// The field that is redacted.
        field: &'static str,
    },
    /// No request is called so.
    #[error("{capture}: no request has the client id or number {id:?}")]
    NoRequest {
        /// Name of the capture.
        capture: String,
        /// What was asked for.
        id: String,
    },
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// Its name.
    pub name: String,
    /// Its values as JSON text; `None` where it is not recorded.
    pub values: [Option<String>; 2],
}

/// Settings that say where files are, and nothing of what is in them.
const PATHS: [&str; 6] = ["model", "requests", "out", "outputs", "draft-model", "draft-script"];

/// Compares what the captures were recorded with; what cannot be told is returned, in words.
///
/// # Errors
/// If they were recorded with different models or tokenizers.
pub(super) fn check_models(captures: [Capture<'_>; 2]) -> Result<Vec<String>, DiffError> {
    for capture in captures {
        let hashed = ["emitted", "drafts"].into_iter().find(|field| is_redacted(capture.recording.header(), field));
        if let Some(field) = hashed {
            let capture = capture.name.to_owned();
            return Err(DiffError::Redacted { capture, field });
        }
    }
    let mut unknown = Vec::new();
    type Hashes = fn(&ModelIdentity) -> &Vec<LabelledHash>;
    let parts: [(&'static str, Hashes); 2] =
        [("model", |model| &model.hashes), ("tokenizer", |model| &model.tokenizer_hashes)];
    for (what, hashes) in parts {
        let [a, b] = captures.map(|capture| capture.recording.header().model.as_ref().map(hashes));
        let pairs = a.into_iter().flatten().flat_map(|a| b.into_iter().flatten().map(move |b| (a, b)));
        let mut pairs = pairs.filter(|(a, b)| a.algorithm == b.algorithm).peekable();
        if pairs.peek().is_none() {
            unknown
                .push(format!("whether both were recorded with the same {what} is not known: no hashes of one kind"));
        }
        if let Some((a, b)) = pairs.find(|(a, b)| !a.hex.eq_ignore_ascii_case(&b.hex)) {
            return Err(DiffError::Unlike {
                captures: Box::new(captures.map(|capture| capture.name.to_owned())),
                what,
                algorithm: a.algorithm.clone(),
                found: Box::new([a.hex.clone(), b.hex.clone()]),
            });
        }
    }
    Ok(unknown)
}

/// What the captures lack of requests and steps, in words.
pub(super) fn gaps(captures: [Capture<'_>; 2]) -> Vec<String> {
    let of = |capture: Capture<'_>| {
        let gaps = Gaps::alone(capture.recording);
        let words = if gaps.records { gaps.in_words } else { Vec::new() };
        let redactions = &capture.recording.header().redactions;
        let redacted =
            redactions.iter().filter(|redaction| ["prompt_tokens", "emitted"].contains(&redaction.field.as_str()));
        let redacted = redacted.map(|redaction| format!("its `{}` are {}", redaction.field, redaction.how));
        let words = words.into_iter().chain(redacted);
        words.map(|words| format!("{}: {words}", capture.name)).collect::<Vec<_>>()
    };
    captures.map(of).concat()
}

/// The settings that differ, by name.
pub(super) fn settings(captures: [Capture<'_>; 2]) -> Vec<SettingDifference> {
    let [a, b] = captures.map(|capture| all_settings(capture.recording.header()));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let values = |name: &String| [a.get(name).cloned(), b.get(name).cloned()];
    let differing = names.into_iter().map(|name| SettingDifference { name: name.clone(), values: values(name) });
    differing.filter(|setting| setting.values[0] != setting.values[1]).collect()
}

/// The configuration without paths, and the rules and libraries that go with it. Planted faults are none of it.
fn all_settings(header: &Header) -> BTreeMap<String, String> {
    let configured = header.configuration.iter().filter(|setting| !PATHS.contains(&setting.name.as_str()));
    let configured = configured.map(|setting| (setting.name.clone(), setting.value.clone()));
    let components = header.components.iter();
    let components = components.map(|component| (format!("component.{}", component.name), quoted(&component.version)));
    let arithmetic = header.arithmetic_version.map(|version| ("arithmetic".to_owned(), version.to_string()));
    let rules = [("sampler-semantics".to_owned(), quoted(&header.sampler_semantics))];
    configured.chain(components).chain(arithmetic).chain(rules).collect()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
