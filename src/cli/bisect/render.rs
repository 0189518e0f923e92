//! The runs and the minimal set, for people and for machines.

use std::io::Write;

use serde_json::{Value, json};

use super::Options;
use super::differences::Difference;
use super::runs::Run;
use crate::cli::output::chance;
use crate::forensics::bisect::{Bisection, Confirmation, Minimal, SIGNIFICANCE, Verdict};

/// A bisection with what it is of.
pub(super) struct Report<'a> {
    pub(super) options: &'a Options,
    pub(super) differences: &'a [Difference],
    /// The good configuration first, then the bad one.
    pub(super) runs: &'a [Run],
    pub(super) bisection: &'a Bisection,
}

/// The differences that a run has, in words.
pub(super) fn applied(subset: &[usize], differences: &[Difference]) -> String {
    match subset.len() {
        0 => "none (good)".to_owned(),
        count if count == differences.len() => "all (bad)".to_owned(),
        _ => names(subset, differences).join(", "),
    }
}

fn names<'a>(subset: &[usize], differences: &'a [Difference]) -> Vec<&'a str> {
    subset.iter().filter_map(|number| differences.get(*number)).map(|found| found.setting.as_str()).collect()
}

/// A value as a file has it.
fn value(value: Option<&toml::Value>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

impl Report<'_> {
    fn minimal(&self) -> Option<&Minimal> {
        match self.bisection {
            Bisection::Minimal(minimal) => Some(minimal),
            Bisection::NothingBad | Bisection::Unresolved => None,
        }
    }

    fn of_set(&self, set: &[usize]) -> Vec<&Difference> {
        set.iter().filter_map(|number| self.differences.get(*number)).collect()
    }

    /// One object; its fields stand in the command's help.
    pub(super) fn json(&self) -> Value {
        let run = |run: &Run| {
            let count = |count: fn(&crate::forensics::bisect::Tally) -> u64| run.tally.as_ref().map(count);
            json!({
                "settings": names(&run.subset, self.differences),
                "bad": count(|tally| tally.bad),
                "judged": count(|tally| tally.judged),
                "nothing": count(|tally| tally.nothing),
                "p": run.p,
                "verdict": verdict(run),
                "reason": run.reason,
            })
        };
        let minimal = self.minimal();
        let set = minimal.map(|minimal| self.of_set(&minimal.set)).unwrap_or_default();
        json!({
            "good": self.options.good.display().to_string(),
            "bad": self.options.bad.display().to_string(),
            "requests": self.options.requests.display().to_string(),
            "oracle": self.options.oracle.name(),
            "differences": self.differences.iter().map(Difference::json).collect::<Vec<_>>(),
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "minimal": set.into_iter().map(Difference::json).collect::<Vec<_>>(),
            "confirmed": minimal.map(Minimal::is_confirmed),
            "confirmation": minimal.map(|minimal| json!({
                "subsets": minimal.subsets,
                "of": match minimal.confirmation {
                    Confirmation::EverySubset => "every proper subset",
                    Confirmation::OneLeftOut => "one left out",
                },
                "unresolved": minimal.unresolved.iter().map(|subset| names(subset, self.differences)).collect::<Vec<_>>(),
            })),
        })
    }

    /// Writes the summary.
    pub(super) fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Options { good, bad, oracle, .. } = self.options;
        writeln!(out, "{}: {}", oracle.name(), oracle.meaning())?;
        let (good, bad) = (good.display(), bad.display());
        let count = self.differences.len();
        let differ = if count == 1 { "setting differs" } else { "settings differ" };
        writeln!(out, "{count} {differ} between {good} and {bad}")?;
        self.values(out, &self.differences.iter().collect::<Vec<_>>())?;

        let applied: Vec<String> = self.runs.iter().map(|run| applied(&run.subset, self.differences)).collect();
        let width = applied.iter().map(|words| words.chars().count()).max().unwrap_or_default().max("as in bad".len());
        writeln!(out, "\nrun  {:<width$}  {:>12}  {:>7}  verdict", "as in bad", "bad requests", "p")?;
        for (number, (run, applied)) in self.runs.iter().zip(&applied).enumerate() {
            let tally = run.tally.map_or_else(|| "-".to_owned(), |tally| format!("{} of {}", tally.bad, tally.judged));
            let p = run.p.map_or_else(|| "-".to_owned(), chance);
            let why = run.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let verdict = verdict(run);
            writeln!(out, "{:>3}  {applied:<width$}  {tally:>12}  {p:>7}  {verdict}{why}", number + 1)?;
        }
        match self.minimal() {
            None => Ok(writeln!(
                out,
                "\nnothing to bisect: {bad} has not more bad requests than {good}, at p < {SIGNIFICANCE}"
            )?),
            Some(minimal) => self.minimal_text(out, minimal),
        }
    }

    fn minimal_text(&self, out: &mut dyn Write, minimal: &Minimal) -> anyhow::Result<()> {
        let set = self.of_set(&minimal.set);
        let plural = if set.len() == 1 { "this setting makes" } else { "together, these settings make" };
        writeln!(out, "\n{plural} the difference")?;
        self.values(out, &set)?;
        let count = minimal.subsets;
        let subsets = match (minimal.confirmation, count) {
            (_, 0) => return Ok(writeln!(out, "confirmed: without it there is the good configuration")?),
            (Confirmation::EverySubset, _) => format!("each of its {count} proper subsets"),
            (Confirmation::OneLeftOut, _) => {
                format!("it with one left out, in each of the {count} ways (of so many, not every subset),")
            }
        };
        if minimal.is_confirmed() {
            return Ok(writeln!(out, "confirmed: {subsets} was run, and none is bad")?);
        }
        let unresolved: Vec<String> =
            minimal.unresolved.iter().map(|subset| names(subset, self.differences).join(" and ")).collect();
        writeln!(
            out,
            "not confirmed: {subsets} was tried, and none is known to be bad; unresolved: {}",
            unresolved.join("; ")
        )?;
        Ok(())
    }

    /// Settings with both values.
    fn values(&self, out: &mut dyn Write, differences: &[&Difference]) -> anyhow::Result<()> {
        let length = |text: &str| text.chars().count();
        let name = differences.iter().map(|found| length(&found.setting)).max().unwrap_or_default();
        let good = differences.iter().map(|found| length(&value(found.good.as_ref()))).max().unwrap_or_default();
        let good = good.max("good".len());
        writeln!(out, "  {:<name$}  {:<good$}  bad", "", "good")?;
        for found in differences {
            let values = [&found.good, &found.bad].map(|side| value(side.as_ref()));
            writeln!(out, "  {:<name$}  {:<good$}  {}", found.setting, values[0], values[1])?;
        }
        Ok(())
    }
}

fn verdict(run: &Run) -> &'static str {
    match run.verdict {
        Verdict::NotBad if run.subset.is_empty() => "good",
        Verdict::Bad => "bad",
        Verdict::NotBad => "not bad",
        Verdict::Unresolved => "unresolved",
    }
}
