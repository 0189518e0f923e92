//! The sections of a report, in words.

mod conditions;
mod figures;
mod localized;
mod missing;
mod recorded;
mod verdicts;
mod worst;

use super::document::{Document, Line, code, counted, shown, strong, text};
use super::gather::Gathered;
use crate::cli::correlate::{not_known, of};
use crate::forensics::localize::render::headline;
use crate::forensics::report::Recorded;
use crate::replay::render::conclusion;

/// Everything a report says.
///
/// # Errors
/// If a capture cannot be read any more.
pub(super) fn document(gathered: &Gathered) -> anyhow::Result<Document> {
    let captures = &gathered.input.captures;
    let recorded: Vec<Recorded<'_>> =
        captures.iter().map(|(_, reader)| Recorded::read(reader)).collect::<Result<_, _>>()?;
    let files: Vec<String> = captures
        .iter()
        .map(|(path, _)| path.file_name().map_or_else(|| "capture".to_owned(), |name| name.display().to_string()))
        .collect();
    let title = match files.as_slice() {
        [file] => format!("Stepscope report on {}", shown(file)),
        files => format!("Stepscope report on {}", counted(files.len() as u64, "capture")),
    };
    Ok(Document {
        title,
        summary: summary(gathered, &recorded),
        sections: vec![
            recorded::section(&recorded),
            verdicts::section(gathered),
            missing::section(gathered, &recorded),
            conditions::section(gathered),
            figures::section(gathered, &recorded)?,
            worst::section(gathered),
            localized::section(gathered),
        ],
    })
}

/// Captures whose first wrong operation the summary tells.
const MOST_DIFFERENCES: usize = 3;

/// What it comes to: the condition, the verdicts, the operation, what was lost, and of what.
fn summary(gathered: &Gathered, recorded: &[Recorded<'_>]) -> Vec<Line> {
    let mut lines = vec![condition(gathered)];
    lines.push(strong("Replay:").text(format!(" {}.", conclusion(&gathered.replayed))));
    let differences = gathered.localized.iter().flatten().filter_map(|(name, localized)| {
        let difference = localized.as_ref().ok()?.difference.as_ref()?;
        Some((name, difference))
    });
    let mut differences: Vec<_> = differences.collect();
    let more = differences.len().saturating_sub(MOST_DIFFERENCES) as u64;
    differences.truncate(MOST_DIFFERENCES);
    for (name, difference) in differences {
        let line = strong("First wrong operation:").text(" ").code(shown(&headline(difference)));
        let request = difference.client_id.as_deref().map_or_else(|| difference.request.to_string(), shown);
        let line = line.text(", in step ").code(difference.step.step.to_string()).text(" of ").code(request);
        lines.push(match gathered.input.captures.len() {
            1 => line.text("."),
            _ => line.text(" in ").code(shown(name)).text("."),
        });
    }
    if more > 0 {
        let captures = counted(more, "more capture");
        lines.push(strong("First wrong operation:").text(format!(" of {captures}, told below.")));
    }
    let lost = missing::lost(gathered, recorded).len() as u64;
    if lost > 0 {
        lines.push(strong("Lost or damaged:").text(format!(" {}, told below.", counted(lost, "thing"))));
    }
    lines.push(recording(gathered, recorded));
    lines
}

/// Who recorded what, in a line.
fn recording(gathered: &Gathered, recorded: &[Recorded<'_>]) -> Line {
    let requests = recorded.iter().map(|capture| capture.requests as u64).sum();
    let counts = [
        counted(requests, "request"),
        counted(gathered.input.table.reading.steps, "step"),
        counted(gathered.replayed.rows, "logits row"),
    ];
    let line = strong("Recorded:").text(format!(" {}", counts.join(", ")));
    let [capture] = recorded else { return line.text(format!(" in {}.", counted(recorded.len() as u64, "capture"))) };
    let header = capture.reader.header();
    let line = line.text(", by ").code(shown(&format!("{} {}", header.recorder.name, header.recorder.version)));
    match &header.model {
        Some(model) => line.text(", of the model ").code(shown(&model.name)).text("."),
        None => line.text(", of an unknown model."),
    }
}

/// The condition that goes best with misranked tokens, or that there is none.
fn condition(gathered: &Gathered) -> Line {
    let reading = gathered.input.table.reading;
    let judged = reading.failing + reading.passing;
    let Some(best) = gathered.correlation.ranked.first() else {
        return match (judged, reading.failing) {
            (0, _) => {
                text("No step could be judged: of none is it recorded how a token that had to come stood in its row.")
            }
            (_, 0) => text(format!("No forced token was misranked on any of {}.", counted(judged, "judged step"))),
            _ => {
                let why = match gathered.correlated().nothing() {
                    Some(_) => "too few to tell which conditions go with them",
                    None => "and no recorded condition goes with them",
                };
                let failing = format!("{} of {judged}", reading.failing);
                text("A forced token was misranked on ").strong(failing).text(format!(" judged steps, {why}."))
            }
        };
    };
    let counts = best.counts;
    text("A forced token was misranked on ")
        .strong(of(counts, true))
        .text(" steps where ")
        .code(best.predicate.as_str())
        .text(", and on ")
        .strong(format!("{} of {}", counts.failing_false, counts.all_false))
        .text(" others")
        .text(not_known(best))
        .text(".")
}

/// A place in a table for what is not recorded.
fn unknown() -> Line {
    text("not recorded")
}

/// A recorded value in a cell.
fn recorded_or_unknown(value: Option<impl ToString>) -> Line {
    value.map_or_else(unknown, |value| code(shown(&value.to_string())))
}
