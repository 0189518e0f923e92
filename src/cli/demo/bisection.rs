//! Which settings of the reporter make the difference: the runs are all that lies between the two configurations, so that nothing
//! has to be run for it.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::runs::Run;
use crate::cli::bisect::{Configurations, Difference};
use crate::forensics::bisect::{Bisection, Tally, Verdict, bisect};

/// The minimal set of settings that makes calls of `faulty` break that do not break with `defaults`.
///
/// # Errors
/// If the settings that `folder` has of a run cannot be read.
pub(super) fn minimal(folder: &Path, runs: &[Run]) -> anyhow::Result<Vec<Difference>> {
    let file = |name: &str| folder.join(name).with_extension("toml");
    let configurations = Configurations::read(&file("defaults"), &file("faulty"), false)?;
    let mut known: Vec<(toml::Table, Tally)> = Vec::new();
    for run in runs {
        let path = file(run.setup.name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let (bad, judged) = (run.broken() as u64, run.outcomes.len() as u64);
        known.push((
            text.parse().with_context(|| path.display().to_string())?,
            Tally { bad, judged, ..Tally::default() },
        ));
    }
    let tally = |subset: &[usize]| {
        let settings = configurations.with(subset);
        known.iter().find(|(table, _)| *table == settings).map(|(_, tally)| *tally)
    };
    let Some(good) = tally(&[]) else { bail!("no run has the settings of `defaults`") };
    let verdict = |subset: &[usize]| {
        let against = tally(subset).and_then(|tally| tally.against(&good).ok());
        against.map_or(Verdict::Unresolved, |(verdict, _)| verdict)
    };
    let found = match bisect(configurations.differences.len(), verdict) {
        Bisection::Minimal(minimal) if minimal.is_confirmed() => minimal.set,
        Bisection::Minimal(_) | Bisection::NothingBad | Bisection::Unresolved => Vec::new(),
    };
    Ok(found.iter().filter_map(|number| configurations.differences.get(*number)).cloned().collect())
}
