//! Plots, each with what it shows in words.

use anyhow::anyhow;

use super::super::document::{Block, Figure, Section, code, counted, shown, strong, text};
use super::super::gather::{Gathered, name};
use super::super::plots::{self, Scatter};
use crate::forensics::report::{Lengths, Populations, Recorded, Series, StepFacts};

/// Captures of which there are plots.
const MOST_CAPTURES: usize = 4;

/// What marks mean: shapes, since colours alone would not do.
const SHAPES: &str = "A filled triangle is a step in which a forced token was misranked, a ring is any other.";

pub(super) fn section(gathered: &Gathered, recorded: &[Recorded<'_>]) -> anyhow::Result<Section> {
    let mut blocks = Vec::new();
    let of_each = recorded.iter().zip(&gathered.steps).take(MOST_CAPTURES).enumerate();
    for (index, (recorded, steps)) in of_each {
        if gathered.steps.len() > 1 {
            blocks.push(Block::Heading(code(shown(&name(recorded.reader.path())))));
        }
        blocks.push(ranks(index, steps)?);
        blocks.push(lengths(index, &steps.lengths)?);
        blocks.push(populations(index, &steps.populations)?);
        blocks.push(margins(index, steps)?);
        blocks.push(channels(index, recorded)?);
    }
    let more = gathered.steps.len().saturating_sub(MOST_CAPTURES);
    if more > 0 {
        blocks.push(Block::Paragraph(text(format!("{} more without plots.", counted(more as u64, "capture")))));
    }
    Ok(Section { anchor: "plots", title: "What the steps show", blocks })
}

/// A figure; `draw` is given a name that no other has, the title, and the words that stand for the drawing.
fn figure(
    index: usize,
    kind: &str,
    title: &str,
    (says, legend): (String, String),
    draw: impl FnOnce(&str, (&str, &str)) -> Result<String, Box<dyn std::error::Error>>,
) -> anyhow::Result<Block> {
    let drawing = draw(&format!("{kind}-{index}"), (title, &says)).map_err(|error| anyhow!("{title}: {error}"))?;
    Ok(Block::Figure(Figure { title: title.to_owned(), says, legend, drawing }))
}

/// That there is nothing to draw, and why.
fn nothing(title: &str, why: &str) -> Block {
    Block::Paragraph(strong(format!("{title}:")).text(format!(" {why}")))
}

/// What marks mean, how many are drawn of how many, and of how many steps there is none.
fn legend(series: &Series, what: &str) -> String {
    let (kept, all) = series.counts();
    let without = match series.without {
        0 => String::new(),
        without => format!("; {} without {what}", counted(without, "step")),
    };
    format!("{SHAPES} {kept} of {all} marks are drawn{without}.")
}

fn ranks(index: usize, steps: &StepFacts) -> anyhow::Result<Block> {
    let (title, series) = ("Place of the forced token in its row", &steps.ranks);
    let misranked = series.failing.pushed();
    let Some(worst) = series.marks().map(|mark| mark.value).reduce(f64::max) else {
        return Ok(nothing(title, "no step has a forced token, beside end tokens, whose rank is recorded."));
    };
    let says = format!(
        "Where the token that had to come stood in its row, for the lowest one of each step; 1 is the best, which is rank 0. Of {} \
         with one, {} misranked it; the lowest stood at {}.",
        counted(series.counts().1, "step"),
        if misranked == 0 { "none".to_owned() } else { misranked.to_string() },
        worst + 1.0,
    );
    let plot = Scatter { series, axis: "place: rank + 1 (logarithmic)", is_logarithmic: true };
    let words = (says, legend(series, "such a rank"));
    figure(index, "ranks", title, words, |name, words| plots::scatter(name, words, &plot))
}

fn lengths(index: usize, lengths: &Lengths) -> anyhow::Result<Block> {
    let title = "Tokens accepted before, and tokens read";
    if lengths.steps() == 0 {
        return Ok(nothing(title, "prev_accepted and q_len are recorded together of no step."));
    }
    let sum = |is_above: bool| {
        let cells = lengths.cells().filter(|((read, accepted), _)| (accepted > read) == is_above);
        cells.fold((0, 0), |(failing, all), (_, cell)| (failing + cell.failing, all + cell.failing + cell.passing))
    };
    let ((failing, all), (failing_below, all_below)) = (sum(true), sum(false));
    let says = format!(
        "How many tokens each step read (q_len: the last token and its drafts), and how many the step before had accepted \
         (prev_accepted). Where more were accepted than the step read, {failing} of {all} judged steps misranked a forced token; \
         elsewhere {failing_below} of {all_below}. Steps after the first bad one of an answer are among them."
    );
    let past = match lengths.past_bound {
        0 => String::new(),
        past => format!("; {} at further places are not drawn", counted(past, "step")),
    };
    let legend = format!(
        "On the line both are the same. A filled triangle is of steps that misranked a forced token, a ring of steps that did not, and a \
         cross of steps that cannot be judged; the larger, the more steps. {} are drawn at {}; {} without one of the two{past}.",
        counted(lengths.steps(), "step"),
        counted(lengths.cells().count() as u64, "place"),
        counted(lengths.without, "step"),
    );
    figure(index, "lengths", title, (says, legend), |name, words| plots::lengths(name, words, lengths))
}

fn populations(index: usize, populations: &Populations) -> anyhow::Result<Block> {
    let title = "Tokens that masks allow";
    if populations.rows() == 0 {
        return Ok(nothing(title, "no population of an applied mask is recorded."));
    }
    let says = format!(
        "How many logits rows have an applied mask that allows so many tokens: {} of {} rows with one allow a single token.",
        populations.up_to.first().copied().unwrap_or(0),
        populations.rows(),
    );
    let without = counted(populations.without, "row");
    let words = (
        says,
        format!(
            "Each bar is of masks that allow more than half of its number, up to it; {without} without a population on record."
        ),
    );
    figure(index, "masks", title, words, |name, words| plots::populations(name, words, populations))
}

fn margins(index: usize, steps: &StepFacts) -> anyhow::Result<Block> {
    let (title, series) = ("How far below the best the emitted token stood", &steps.margins);
    let Some(widest) = series.marks().map(|mark| mark.value).reduce(f64::max) else {
        return Ok(nothing(title, "no margin of an emitted token is recorded."));
    };
    let says = format!(
        "The raw row's greatest value minus that of the token which was emitted, for the widest one of each step, in logits (natural \
         logarithms); 0 is the best token itself. The widest is {widest:.2}."
    );
    let plot = Scatter { series, axis: "margin (logits)", is_logarithmic: false };
    let words = (says, legend(series, "a finite margin"));
    figure(index, "margins", title, words, |name, words| plots::scatter(name, words, &plot))
}

fn channels(index: usize, recorded: &Recorded<'_>) -> anyhow::Result<Block> {
    let title = "Bytes of the capture by channel";
    let channels: Vec<(&'static str, u64)> =
        recorded.survey.channels.iter().map(|(topic, totals)| (topic.name(), totals.bytes)).collect();
    let Some((largest, bytes)) = channels.iter().max_by_key(|(_, bytes)| *bytes) else {
        return Ok(nothing(title, "the capture has no messages."));
    };
    let says = format!(
        "What the messages of each channel take before compression, {} bytes in all; the largest is {largest} with {bytes}. The file \
         has {} bytes.",
        channels.iter().map(|(_, bytes)| bytes).sum::<u64>(),
        recorded.file_bytes,
    );
    figure(index, "channels", title, (says, String::new()), |name, words| plots::channels(name, words, &channels))
}
