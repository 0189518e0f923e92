//! What `replay --json` found, as a label of steps.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::forensics::correlate::StepKey;
use crate::replay::CheckName;

/// The steps with findings, by capture.
pub(super) struct Findings {
    captures: BTreeSet<String>,
    steps: HashMap<String, HashSet<StepKey>>,
    /// Findings that are not of one step.
    elsewhere: HashMap<String, u64>,
}

impl Findings {
    /// Reads what `replay --json` printed. A step without a finding counts as passing, and so every subject must have been checked.
    pub(super) fn read(path: &Path, wanted: Option<CheckName>) -> anyhow::Result<Self> {
        let place = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("{place}: cannot read"))?;
        let report: Value =
            serde_json::from_str(&text).with_context(|| format!("{place}: not what `replay --json` prints"))?;
        let checks = report["checks"].as_object().with_context(|| format!("{place}: `checks` is missing"))?;
        if let Some(wanted) = wanted {
            ensure!(checks.contains_key(wanted.as_str()), "{place}: replay did not run the check `{wanted}`");
        }
        let is_wanted = |check: &str| wanted.is_none_or(|wanted| wanted.as_str() == check);
        for (check, tally) in checks.iter().filter(|(check, _)| is_wanted(check)) {
            let mut reasons = tally["reasons"].as_array().into_iter().flatten();
            if let Some(reason) = reasons.find(|reason| reason["missing"] == true) {
                bail!(
                    "{place}: the check `{check}` left {} facts out ({}), and which steps they are of is not known; replay with what \
                     is missing, or with --check and the checks that need none of it",
                    reason["count"],
                    reason["reason"].as_str().unwrap_or("no reason given")
                );
            }
        }
        let mut of_wanted = checks.iter().filter(|(check, _)| is_wanted(check));
        ensure!(
            of_wanted.any(|(_, tally)| tally["checked"].as_u64() > Some(0)),
            "{place}: {} compared nothing of these captures, so that no step passes; the reasons are in `checks`",
            wanted.map_or_else(|| "replay".to_owned(), |wanted| format!("the check `{wanted}`"))
        );
        ensure!(
            report["findings_left_out"].as_u64() == Some(0),
            "{place}: replay left {} findings out, and which steps they are of is not known; replay one check or fewer captures",
            report["findings_left_out"]
        );
        let texts = |value: &Value| {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut findings =
            Self { captures: texts(&report["captures"]), steps: HashMap::new(), elsewhere: HashMap::new() };
        let listed = report["findings"].as_array().with_context(|| format!("{place}: `findings` is missing"))?;
        for finding in listed.iter().filter(|finding| finding["check"].as_str().is_some_and(is_wanted)) {
            let capture = finding["capture"].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| finding[name].as_u64();
            let choice = number("choice").and_then(|choice| u32::try_from(choice).ok());
            match (number("request"), choice, number("step")) {
                (Some(request), Some(choice), Some(step)) => {
                    findings.steps.entry(capture).or_default().insert((request, choice, step));
                }
                _ => *findings.elsewhere.entry(capture).or_default() += 1,
            }
        }
        Ok(findings)
    }

    /// The steps of a capture that have findings.
    pub(super) fn of(&self, capture: &Path, notes: &mut Vec<String>) -> anyhow::Result<HashSet<StepKey>> {
        let name = capture.display().to_string();
        ensure!(
            self.captures.contains(&name),
            "--replay: it is of {}, and not of {name}; captures must be named as they were to replay",
            self.captures.iter().cloned().collect::<Vec<_>>().join(", ")
        );
        if let Some(count) = self.elsewhere.get(&name) {
            notes.push(format!("{name}: {count} findings are not of one step, and label none"));
        }
        Ok(self.steps.get(&name).cloned().unwrap_or_default())
    }
}
