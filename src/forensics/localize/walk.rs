//! One sequence, run again step after step.

use crate::arith::{ActivationRow, BLOCK, RowStatistics, scalar};
use crate::capture::records::{Admission, StepRecord};
use crate::replay::execution::{Execution, Stuck, run_prompt};
use crate::replay::forward::{FeedError, Listener, Memory, PlainModel};
use crate::replay::gaps::Gaps;
use crate::replay::joined::joined;
use crate::replay::passage::Passage;
use crate::replay::recording::{RecordedSequence, RowId};

/// A sequence that is run again, at the beginning of a step.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    admission: &'a Admission,
    sequence: &'a RecordedSequence,
    /// How many steps join up: what was committed before the others is not known.
    joined: usize,
    next: usize,
    /// Tokens emitted before the step.
    output: Vec<u32>,
    pub(super) execution: Execution<'a>,
}

/// What one row passes through.
#[derive(Clone)]
pub(super) struct Run {
    /// Every operation that captures sketch, in order.
    pub(super) passage: Vec<Passage>,
    /// The Euclidean norm of what each gives.
    pub(super) norms: Vec<f64>,
    pub(super) head_input: ActivationRow,
    pub(super) statistics: RowStatistics,
}

/// The prompt's memory, once it was computed: every choice of a request begins with it.
pub(super) type PromptMemory = Option<Result<Memory, FeedError>>;

impl<'a> Walk<'a> {
    /// At the first step.
    ///
    /// # Errors
    /// Why the prompt cannot be read, in words.
    pub(super) fn start(
        plain: &'a PlainModel<'a>,
        admission: &'a Admission,
        sequence: &'a RecordedSequence,
        gaps: &Gaps,
        prompt_memory: &mut PromptMemory,
    ) -> Result<Self, String> {
        let prompt = &admission.prompt_tokens;
        let memory = prompt_memory.get_or_insert_with(|| run_prompt(plain, prompt));
        let memory = memory.as_ref().map_err(|error| format!("request {}: its prompt: {error}", admission.request))?;
        let joined = if gaps.records { joined(&sequence.steps, prompt.len()) } else { sequence.steps.len() };
        let execution = Execution::new(plain, prompt, memory.clone());
        Ok(Self { admission, sequence, joined, next: 0, output: Vec::new(), execution })
    }

    pub(super) fn request(&self) -> u64 {
        self.admission.request
    }

    pub(super) fn choice(&self) -> u32 {
        self.sequence.choice
    }

    /// Why not every step can be run, in words.
    pub(super) fn not_joined(&self) -> Option<String> {
        let step = self.sequence.steps.get(self.joined)?;
        let (request, choice) = (self.request(), self.choice());
        Some(format!("request {request}, choice {choice}: steps before step {} are missing", step.step))
    }

    /// The step that comes next; `None` past the last that can be run.
    pub(super) fn step(&self) -> Option<&'a StepRecord> {
        self.sequence.steps.get(..self.joined)?.get(self.next)
    }

    /// Where what is recorded of a row of the step stands.
    pub(super) fn row_id(&self, row: u32) -> RowId {
        let step = self.step().map_or(0, |step| step.step);
        RowId { step, request: self.request(), choice: self.choice(), row }
    }

    /// Runs the next row of the step. `change` may change what an operation gives.
    ///
    /// # Errors
    /// Why it cannot be run, or is not the row that is recorded, in words.
    pub(super) fn run(&mut self, row: u32, change: Option<&mut Listener<'_>>) -> Result<Run, String> {
        let step = self.step().ok_or("there is no such step")?;
        let (mut passage, mut norms) = (Vec::new(), Vec::new());
        let mut nothing = |_: Option<usize>, _: &'static str, _: &mut [f32]| {};
        let change: &mut Listener<'_> = match change {
            Some(change) => change,
            None => &mut nothing,
        };
        let mut listen = |layer: Option<usize>, operation: &'static str, output: &mut [f32]| {
            change(layer, operation, output);
            passage.push(Passage::new(layer, operation, output));
            norms.push(norm(output));
        };
        let hidden = self.execution.run(step, row, &self.output, Some(&mut listen)).map_err(in_words)?;
        let position = self.execution.position();
        if let Some(recorded) = step.rows.get(row as usize).filter(|recorded| recorded.position != position) {
            let recorded = recorded.position;
            return Err(format!("it is recorded at position {recorded}, and the tokens before it end at {position}"));
        }
        let plain = self.execution.plain();
        let head_input = plain.head_input(&hidden);
        let statistics = scalar::row_statistics(&plain.logits(&head_input));
        Ok(Run { passage, norms, head_input, statistics })
    }

    /// Runs the rows of the step without looking at them, as far as that can be done.
    pub(super) fn run_silently(&mut self) {
        let Some(step) = self.step() else { return };
        for row in 0..step.rows.len() as u32 {
            if self.execution.run(step, row, &self.output, None).is_err() {
                return;
            }
        }
    }

    /// Takes back what the step did not commit, and goes on to the next.
    pub(super) fn commit(&mut self) {
        let Some(step) = self.step() else { return };
        self.output.extend(&step.emitted);
        self.execution.commit(&self.output);
        self.next += 1;
    }
}

fn in_words(stuck: Stuck) -> String {
    match stuck {
        Stuck::NoInput(skip) => skip.reason.into_owned(),
        Stuck::Refused(error) => error.to_string(),
    }
}

/// The Euclidean norm.
pub(super) fn norm(x: &[f32]) -> f64 {
    x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt()
}

/// What the LM head reads, as floats.
pub(super) fn as_floats(input: &ActivationRow) -> Vec<f32> {
    match input {
        ActivationRow::Float(values) => values.clone(),
        ActivationRow::Quantized(row) => {
            let blocks = row.values.chunks(BLOCK).zip(&row.scales);
            blocks.flat_map(|(values, scale)| values.iter().map(move |value| f32::from(*value) * scale)).collect()
        }
    }
}
