//! What the change led to, for people and for machines.

use std::io::Write;

use serde_json::{Value, json};

use super::Options;
use super::changes::Changes;
use crate::capture::records::StopReason;
use crate::forensics::diff::{At, Parting, Sequence, render};
use crate::forensics::what_if::Answer;
use crate::types::SequenceId;

/// A what-if with what it is of.
pub(super) struct Report<'a> {
    pub(super) options: &'a Options,
    pub(super) changes: &'a Changes,
    pub(super) sequence: SequenceId,
    pub(super) client_id: Option<&'a str>,
    /// Tokens before the step.
    pub(super) emitted: usize,
    pub(super) notes: &'a [String],
    /// Where the run that repeats the recording parts from it, if it does.
    pub(super) not_reproduced: Option<Parted<'a>>,
    /// Where the changed run parts from the other, what became of both, and what could not be compared; `None` if the recording does not
    /// come out again.
    pub(super) sides: Option<(Parted<'a>, &'a [Answer; 2], &'a [String])>,
}

/// Where two runs part.
pub(super) struct Parted<'a> {
    pub(super) sequence: &'a Sequence,
    /// The recorded step of each token.
    pub(super) steps: &'a [u64],
    /// What is added to a step's number, to have it as the recording counts.
    pub(super) offset: i128,
}

impl Parted<'_> {
    /// The kind, in a word.
    fn kind(&self) -> Option<&'static str> {
        self.sequence.parting.as_ref().map(render::name)
    }

    /// The steps of the two sides, numbered as the recording counts.
    fn sides(&self) -> Option<[Option<At>; 2]> {
        let Some(Parting::Tokens { steps, .. }) = &self.sequence.parting else { return None };
        Some(steps.as_ref().clone().map(|at| {
            at.map(|mut at| {
                at.step.step = u64::try_from(i128::from(at.step.step) + self.offset).unwrap_or(at.step.step);
                at
            })
        }))
    }

    /// The recorded step that emits the first token that differs; its last one, where it had ended.
    fn step(&self) -> Option<u64> {
        let Some(Parting::Tokens { index, .. }) = &self.sequence.parting else { return None };
        self.steps.get(*index).or(self.steps.last()).copied()
    }

    fn json(&self) -> Value {
        let Some(parting) = &self.sequence.parting else { return Value::Null };
        let mut object = json!({"kind": self.kind(), "step": self.step()});
        match parting {
            Parting::Tokens { index, position, .. } => {
                let sides = self.sides().unwrap_or_default();
                object["index"] = (*index).into();
                object["position"] = (*position).into();
                object["sides"] = sides.iter().map(|at| at.as_ref().map_or(Value::Null, render::at_json)).collect();
            }
            Parting::End(ends) => object["ends"] = json!(ends),
            Parting::Rows => object["position"] = json!(self.sequence.row.as_ref().and_then(|row| row.position)),
            Parting::Refusal(_) | Parting::Prompt { .. } => {}
        }
        object
    }

    fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.sequence.parting {
            None => writeln!(out, "parts       nowhere")?,
            Some(Parting::Tokens { index, position, .. }) => {
                let step = self.step().map_or(String::new(), |step| format!(", step {step}"));
                writeln!(out, "parts       at position {position}{step}, after {index} tokens of the answer")?;
                if let Some(sides) = self.sides() {
                    let mut text = String::new();
                    render::side_by_side(&mut text, &sides);
                    write!(out, "{text}")?;
                }
            }
            Some(Parting::End([a, b])) => writeln!(out, "parts       at the end: {} and {}", ended(a), ended(b))?,
            Some(Parting::Rows) => {
                let position = self.sequence.row.as_ref().and_then(|row| row.position);
                let place = position.map_or(String::new(), |position| format!(" from position {position} on"));
                writeln!(out, "parts       in the logits{place}, and not in the tokens")?;
            }
            Some(Parting::Refusal(_) | Parting::Prompt { .. }) => writeln!(out, "parts       in the request")?,
        }
        Ok(())
    }
}

impl Report<'_> {
    /// Writes it as the options ask.
    pub(super) fn print(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.options.json {
            true => Ok(writeln!(out, "{:#}", self.json())?),
            false => self.text(out),
        }
    }

    fn json(&self) -> Value {
        let set: serde_json::Map<String, Value> =
            self.changes.given.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        let mut object = json!({
            "capture": self.options.capture.display().to_string(),
            "request": self.sequence.request.0,
            "client_id": self.client_id,
            "choice": self.sequence.choice.0,
            "step": self.options.step,
            "emitted": self.emitted,
            "set": set,
            "reproduced": self.not_reproduced.is_none(),
            "notes": self.notes,
            "parts": self.not_reproduced.as_ref().map(Parted::json),
        });
        if let Some((parted, [control, changed], missing)) = &self.sides {
            object["parts"] = parted.json();
            object["differ"] = control.tokens_that_differ(changed).into();
            object["control"] = answer_json(control);
            object["changed"] = answer_json(changed);
            object["changes"] = parted.sequence.parting.is_some().into();
            object["missing"] = json!(missing);
        }
        object
    }

    fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let request = match self.client_id {
            Some(id) => format!("{id} (request {})", self.sequence.request.0),
            None => format!("request {}", self.sequence.request.0),
        };
        let choice = self.sequence.choice.0;
        let choice = if choice > 0 { format!(", choice {choice}") } else { String::new() };
        let step = self.options.step;
        writeln!(out, "{request}{choice}: from step {step} on, after {} tokens of the answer", self.emitted)?;
        for (key, value) in &self.changes.given {
            writeln!(out, "set         {key} = {value}")?;
        }
        for note in self.notes {
            writeln!(out, "note        {note}")?;
        }
        if let Some(parted) = &self.not_reproduced {
            writeln!(
                out,
                "control     the recording does not come out again (a), and nothing can be said of a change (b is what comes out)"
            )?;
            parted.text(out)?;
            return Ok(writeln!(
                out,
                "            it may have been recorded under a planted fault (give it with --inject), or by another engine"
            )?);
        }
        let Some((parted, [control, changed], missing)) = &self.sides else { return Ok(()) };
        writeln!(
            out,
            "control     the recording comes out again, {} tokens (a; the changed run is b)",
            control.tokens.len()
        )?;
        parted.text(out)?;
        writeln!(
            out,
            "differ      {} tokens, of {} and {}",
            control.tokens_that_differ(changed),
            control.tokens.len(),
            changed.tokens.len()
        )?;
        let of_both = |of: fn(&Answer) -> String| [of(control), of(changed)];
        for (name, [a, b]) in [
            ("steps", of_both(|answer| answer.steps.to_string())),
            ("ended", of_both(|answer| ended(&answer.stop))),
            ("calls", of_both(calls)),
            ("misranked", of_both(|answer| answer.misranked.to_string())),
            ("text", of_both(|answer| json!(answer.text).to_string())),
            ("tool calls", of_both(|answer| answer.tool_calls.clone().unwrap_or_else(|| "none".to_owned()))),
        ] {
            match (a == b, a.len() > 40 || b.len() > 40) {
                (true, _) => writeln!(out, "{name:<11} {a}, unchanged")?,
                (false, false) => writeln!(out, "{name:<11} {a} -> {b}")?,
                (false, true) => writeln!(out, "{name:<11} {a}\n         -> {b}")?,
            }
        }
        for missing in *missing {
            writeln!(out, "missing     {missing}")?;
        }
        Ok(())
    }
}

fn answer_json(answer: &Answer) -> Value {
    json!({
        "steps": answer.steps,
        "tokens": answer.tokens,
        "text": answer.text,
        "tool_calls": answer.tool_calls,
        "stop": answer.stop,
        "calls": answer.calls.map(|outcome| outcome.name()).ok(),
        "misranked": answer.misranked,
    })
}

fn ended(stop: &Option<StopReason>) -> String {
    stop.as_ref().map_or("not recorded".to_owned(), |stop| json!(stop).to_string())
}

fn calls(answer: &Answer) -> String {
    answer.calls.map_or_else(|why| why.to_string(), |outcome| outcome.name().to_owned())
}
