//! What was found, as text and as JSON.

use std::io::Write;

use serde_json::{Value, json};

use super::read::Input;
use crate::cli::output::chance;
use crate::forensics::correlate::{Correlation, Counts, Label, RATE, Ranked, UnitOfTable, UnitPlace, Way};

/// A correlation with what it is of.
pub(in crate::cli) struct Correlated<'a> {
    pub(in crate::cli) label: &'a Label,
    pub(in crate::cli) input: &'a Input,
    pub(in crate::cli) correlation: &'a Correlation,
}

/// Equivalent conditions that the text names.
const EQUIVALENTS_TOLD: usize = 6;
/// Failing steps that the text names, and that the JSON does.
const STEPS_TOLD: usize = 5;
const STEPS_IN_JSON: usize = 1000;

/// A failing unit and the nearest passing one before it in its sequence.
pub(in crate::cli) struct Example {
    failing: UnitPlace,
    passing: Option<UnitPlace>,
    client_id: Option<String>,
}

impl Correlated<'_> {
    /// What one counts: `step` or `answer`.
    fn unit(&self) -> &'static str {
        match self.input.table.unit {
            UnitOfTable::Step => "step",
            UnitOfTable::Sequence => "answer",
        }
    }

    /// Writes the summary.
    pub(super) fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (reading, correlation, unit) = (self.input.table.reading, self.correlation, self.unit());
        let captures = self.input.captures.len();
        let plural = if captures == 1 { "" } else { "s" };
        writeln!(out, "{}: {}", self.label, self.label.meaning())?;
        writeln!(
            out,
            "read        {} steps of {} answers in {captures} capture{plural}",
            reading.steps, reading.sequences
        )?;
        writeln!(
            out,
            "judged      {} {unit}s: {} fail, {} pass",
            reading.failing + reading.passing,
            reading.failing,
            reading.passing
        )?;
        writeln!(out, "left out    {}", self.left_out())?;
        if let Some(why) = self.nothing() {
            return Ok(writeln!(out, "\nnothing to correlate: {why}")?);
        }
        writeln!(out, "conditions  {}", self.conditions())?;
        writeln!(out, "control     {}", self.control())?;
        if self.is_doubtful() {
            writeln!(
                out,
                "            that is more than chance explains: what follows may be the work of how the {unit}s are spread"
            )?;
        }
        for (index, ranked) in correlation.ranked.iter().enumerate() {
            self.ranked_text(out, index + 1, ranked)?;
        }
        if correlation.ranked.is_empty() {
            writeln!(out, "\nno condition of the engine's state goes with the failing {unit}s")?;
        }
        writeln!(out, "\nnot explained: {} of {} failing {unit}s", correlation.not_explained, reading.failing)?;
        Ok(())
    }

    /// Units that count for nothing.
    pub(in crate::cli) fn left_out(&self) -> String {
        let reading = self.input.table.reading;
        [
            (reading.no_site, "with nothing to judge"),
            (reading.unknown, "of which it is not known"),
            (reading.censored, "after the first that fails in its answer"),
        ]
        .map(|(count, why)| format!("{count} {why}"))
        .join(", ")
    }

    /// Why there is nothing to correlate, if there is not.
    pub(in crate::cli) fn nothing(&self) -> Option<String> {
        let (reading, unit) = (self.input.table.reading, self.unit());
        if reading.failing > 0 && self.correlation.tested > 0 {
            return None;
        }
        Some(match (self.input.table.is_empty(), reading.failing) {
            (true, _) => format!("no {unit} could be judged"),
            (false, 0) => format!("no {unit} fails"),
            (false, _) => format!("{} failing {unit}s are too few to tell anything of", reading.failing),
        })
    }

    /// How many conditions were looked at.
    pub(in crate::cli) fn conditions(&self) -> String {
        let (correlation, unit) = (self.correlation, self.unit());
        format!(
            "{}: {} hold everywhere or nowhere, {} say the same as a simpler one, {} could not come to a small p, over all {unit}s or by requests; {} tested",
            correlation.predicates, correlation.constant, correlation.merged, correlation.unable, correlation.tested
        )
    }

    /// What the control came to.
    pub(in crate::cli) fn control(&self) -> String {
        format!(
            "of {} runs with shuffled labels, {} report anything",
            self.correlation.permutations, self.correlation.permutations_reporting
        )
    }

    /// Whether shuffled labels report more than twice as often as they may.
    pub(in crate::cli) fn is_doubtful(&self) -> bool {
        self.correlation.permutations_reporting as f64 > 2.0 * RATE * self.correlation.permutations as f64
    }

    fn ranked_text(&self, out: &mut dyn Write, number: usize, ranked: &Ranked) -> anyhow::Result<()> {
        let unit = self.unit();
        writeln!(out, "\n{number}. {}", ranked.predicate)?;
        writeln!(
            out,
            "   {} fail where it holds, against {}{}",
            of(ranked.counts, true),
            of(ranked.counts, false),
            not_known(ranked)
        )?;
        writeln!(
            out,
            "   Increase {}, Importance {:.2}, {:.0} bits, q {} ({})",
            increase(ranked),
            ranked.importance,
            ranked.information,
            chance(ranked.q),
            way(ranked.way)
        )?;
        let failures = self.input.table.reading.failing;
        writeln!(out, "   explains {} of {failures} failing {unit}s", ranked.explains.len())?;
        if !ranked.equivalents.is_empty() {
            let told: Vec<&str> = ranked.equivalents.iter().take(EQUIVALENTS_TOLD).map(String::as_str).collect();
            let more = ranked.equivalents.len().saturating_sub(EQUIVALENTS_TOLD);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            writeln!(out, "   or equivalently: {}{more}", told.join("; "))?;
        }
        for (predicate, counts) in &ranked.close {
            writeln!(out, "   close to it: {predicate} ({} against {})", of(*counts, true), of(*counts, false))?;
        }
        for within in ranked.within_content.iter().filter(|within| within.strata > 0) {
            writeln!(out, "   among {unit}s of like {}: p {}", within.column, chance(within.p))?;
        }
        for example in self.examples(ranked, STEPS_TOLD) {
            writeln!(out, "   fails: {}", self.example_in_words(&example))?;
        }
        let more = ranked.explains.len().saturating_sub(STEPS_TOLD);
        if more > 0 {
            writeln!(out, "   and {more} more")?;
        }
        Ok(())
    }

    /// Where an example is found.
    pub(in crate::cli) fn example_in_words(&self, example: &Example) -> String {
        let captures = &self.input.captures;
        let capture = match captures.get(example.failing.capture) {
            Some((path, _)) if captures.len() > 1 => format!("{} ", path.display()),
            Some(_) | None => String::new(),
        };
        let client_id = example.client_id.clone();
        let request = client_id.unwrap_or_else(|| format!("request {}", example.failing.sequence.request));
        let choice = match example.failing.sequence.choice.0 {
            0 => String::new(),
            choice => format!(" choice {choice}"),
        };
        let passing = example.passing.map_or_else(String::new, |passing| format!(" (passes: step {})", passing.step));
        let step = match self.input.table.unit {
            UnitOfTable::Step => format!(" step {}", example.failing.step),
            UnitOfTable::Sequence => String::new(),
        };
        format!("{capture}{request}{choice}{step}{passing}")
    }

    /// The first failing units that it explains.
    pub(in crate::cli) fn examples(&self, ranked: &Ranked, most: usize) -> Vec<Example> {
        let table = &self.input.table;
        let example = |unit: &usize| {
            let failing = *table.places.get(*unit)?;
            let before = table.sequence_of(*unit).start..*unit;
            let passing = before
                .rev()
                .find(|unit| table.counted.has(*unit) && !table.failing.has(*unit))
                .and_then(|unit| table.places.get(unit).copied());
            let reader = self.input.captures.get(failing.capture).map(|(_, reader)| reader);
            let records = reader.and_then(|reader| reader.request(failing.sequence.request).ok());
            let client_id = records.and_then(|records| records.admission?.client_id);
            Some(Example { failing, passing, client_id })
        };
        ranked.explains.iter().take(most).filter_map(example).collect()
    }

    /// The same as one object.
    pub(super) fn json(&self) -> Value {
        let (reading, correlation) = (self.input.table.reading, self.correlation);
        let captures: Vec<String> = self.input.captures.iter().map(|(path, _)| path.display().to_string()).collect();
        json!({
            "captures": captures,
            "label": self.label.to_string(),
            "unit": self.unit(),
            "steps": reading.steps,
            "answers": reading.sequences,
            "failing": reading.failing,
            "failing_answers": reading.failing_sequences,
            "passing": reading.passing,
            "nothing_to_judge": reading.no_site,
            "unknown": reading.unknown,
            "censored": reading.censored,
            "unreadable": reading.unreadable,
            "conditions": {
                "made": correlation.predicates,
                "constant": correlation.constant,
                "merged": correlation.merged,
                "unable": correlation.unable,
                "tested": correlation.tested,
                "pairs_tested": correlation.conjunctions,
                "surviving": correlation.survivors,
            },
            "control": {"permutations": correlation.permutations, "reporting": correlation.permutations_reporting},
            "ranked": correlation.ranked.iter().map(|ranked| self.ranked_json(ranked)).collect::<Vec<_>>(),
            "not_explained": correlation.not_explained,
            "notes": self.input.notes,
        })
    }

    fn ranked_json(&self, ranked: &Ranked) -> Value {
        let place = |place: &UnitPlace| json!({"step": place.step});
        let example = |example: Example| {
            json!({
                "capture": example.failing.capture,
                "request": example.failing.sequence.request.0,
                "client_id": example.client_id,
                "choice": example.failing.sequence.choice.0,
                "step": example.failing.step,
                "passing": example.passing.as_ref().map(place),
            })
        };
        let counts = ranked.counts;
        let close = |(predicate, counts): &(String, Counts)| {
            json!({
                "predicate": predicate,
                "true": [counts.failing_true, counts.all_true],
                "false": [counts.failing_false, counts.all_false],
            })
        };
        json!({
            "predicate": ranked.predicate,
            "importance": ranked.importance,
            "information": ranked.information,
            "increase": ranked.increase.value,
            "increase_interval": [ranked.increase.low, ranked.increase.high],
            "q": ranked.q,
            "p": {
                "pooled": ranked.p_pooled,
                "by_request": ranked.p_by_request,
                "way": way(ranked.way),
            },
            "true": [counts.failing_true, counts.all_true],
            "false": [counts.failing_false, counts.all_false],
            "not_known": [ranked.not_known.0, ranked.not_known.1],
            "explains": ranked.explains.len(),
            "equivalents": ranked.equivalents,
            "close": ranked.close.iter().map(close).collect::<Vec<_>>(),
            "within_content": ranked.within_content.iter()
                .map(|within| json!({"column": within.column, "p": within.p, "strata": within.strata})).collect::<Vec<_>>(),
            "examples": self.examples(ranked, STEPS_IN_JSON).into_iter().map(example).collect::<Vec<_>>(),
        })
    }
}

/// The increase with its interval.
pub(in crate::cli) fn increase(ranked: &Ranked) -> String {
    let increase = ranked.increase;
    format!("{:+.2} ({:+.2} to {:+.2})", increase.value, increase.low, increase.high)
}

pub(in crate::cli) fn way(way: Way) -> &'static str {
    match way {
        Way::WithinRequests => "within requests",
        Way::BetweenRequests => "between requests",
    }
}

/// Failing units of one side, of all there.
pub(in crate::cli) fn of(counts: Counts, holds: bool) -> String {
    match holds {
        true => format!("{} of {}", counts.failing_true, counts.all_true),
        false => format!("{} of {}", counts.failing_false, counts.all_false),
    }
}

pub(in crate::cli) fn not_known(ranked: &Ranked) -> String {
    match ranked.not_known {
        (_, 0) => String::new(),
        (failing, all) => format!(" (not known of {all}, of which {failing} fail)"),
    }
}
