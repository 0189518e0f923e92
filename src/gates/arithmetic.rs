//! The arithmetic gate: on every instruction set of this machine, and on its GPU, golden vectors come out as they must, and the
//! engine's rows are those of the plain forward pass of the definition, bit for bit: for every weight format, in any batch, on
//! any number of threads, with prompts in chunks of any length and with drafts.

use std::sync::Arc;

use super::GateError;
use super::driver::{Bench, Job, Sampling};
use super::fixture::{Fixture, SmallModel};
use super::judgement::{Comparison, Gate, Line, Verdict, parting};
use super::reference::same_bits;
use super::scripted::below;
use crate::arith::golden::{self, Path, PhiloxBlock};
use crate::arith::{Isa, Kernels, KvType, WeightFormat, scalar};
use crate::backend::{self, Backend, BackendError, BackendKind, BackendOptions};
use crate::engine::drafter::{DraftContext, Drafter};
use crate::engine::faults::Fault;
use crate::engine::sampler::{Draft, VerifyRule};
use crate::engine::speculation::{Scheduling, Speculation};
use crate::model::Architecture;
use crate::model::synthetic::SyntheticModel;
use crate::replay::forward::{PlainModel, Products};
use crate::types::TokenId;

/// Tokens of the prompts: within a page of the cache, past one, and of one token.
const PROMPTS: [u32; 3] = [29, 45, 1];
const ANSWER: u32 = 12;
const DRAFTS: usize = 6;
/// Decides the models' weights, and keys prompts and drafts.
const SEED: u64 = 31;
const PROMPT_KEY: u64 = 0x0a21_7e71;

/// How the engine runs: nothing of it may change a bit.
#[derive(Clone, Copy)]
struct Setting {
    threads: usize,
    max_batch: usize,
    prefill_chunk: usize,
    drafts: usize,
}

const SETTINGS: [Setting; 3] = [
    Setting { threads: 1, max_batch: 1, prefill_chunk: 64, drafts: 0 },
    Setting { threads: 2, max_batch: 3, prefill_chunk: 7, drafts: DRAFTS },
    Setting { threads: 3, max_batch: 2, prefill_chunk: 1, drafts: 2 },
];

/// Where rows are computed.
#[derive(Clone, Copy)]
enum Device {
    Cpu(Isa),
    Cuda,
}

impl Device {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu(isa) => isa.name(),
            Self::Cuda => "cuda",
        }
    }

    fn open(self, case: &Reference, setting: Setting) -> Result<Box<dyn Backend>, BackendError> {
        let (kind, isa) = match self {
            Self::Cpu(isa) => (BackendKind::Cpu, Some(isa)),
            Self::Cuda => (BackendKind::Cuda, None),
        };
        let options = BackendOptions {
            threads: setting.threads,
            isa,
            kv_type: case.kv_type,
            pages: 4 * setting.max_batch,
            state_slots: setting.max_batch,
            snapshots: 0,
            drafts: setting.drafts,
            sketches: false,
        };
        backend::open(kind, &case.small.model, &options)
    }
}

const FAULTS: [Fault; 4] =
    [Fault::HEAD_TAIL, Fault::ROWS_FROM_NEIGHBOUR, Fault::VERIFY_POSITION, Fault::STATE_BOUND_BY_QUERY];

/// Runs the gate.
pub(super) fn run(fixture: &Fixture, teeth: bool) -> Result<Vec<Line>, GateError> {
    let mut lines = Vec::new();
    let paths = Isa::ALL.into_iter().filter_map(|isa| Some((isa, Kernels::new(isa).ok()?)));
    lines.push(golden_line("the definition", Path::Scalar)?);
    for (isa, kernels) in paths {
        lines.push(golden_line(isa.name(), Path::Kernels(kernels))?);
    }
    let mut references = Vec::new();
    for format in WeightFormat::ALL {
        for architecture in [Architecture::Llama, Architecture::Lfm2] {
            references.push(Reference::new(architecture, format)?);
        }
    }
    for device in Isa::ALL.map(Device::Cpu).into_iter().chain([Device::Cuda]) {
        lines.push(match absence(device, &references) {
            Some(why) => Line {
                gate: Gate::Arithmetic,
                fault: None,
                case: device.name().to_owned(),
                checked: 0,
                verdict: Verdict::NotRun(why),
                composed: None,
            },
            None => rows_line(fixture, device, &references, &SETTINGS, None)?,
        });
    }
    // The faults are of what feeds the kernels and of what leaves them: one path, one model and one way of running show them.
    let hybrid = |reference: &&Reference| reference.name == "Q4_1 lfm2";
    let hybrid: Vec<Reference> = references.iter().filter(hybrid).cloned().collect();
    for fault in FAULTS.into_iter().filter(|_| teeth) {
        lines.push(rows_line(fixture, Device::Cpu(Isa::detect()), &hybrid, &SETTINGS[1..2], Some(fault))?);
    }
    Ok(lines)
}

/// Why a device cannot be tried here; `None` where it can.
fn absence(device: Device, references: &[Reference]) -> Option<String> {
    let reference = references.first()?;
    device.open(reference, SETTINGS[0]).err().map(|error| error.to_string())
}

fn golden_line(name: &str, path: Path) -> Result<Line, GateError> {
    let unreadable = |error: golden::Malformed| GateError::Reference { what: "tests/golden", why: error.to_string() };
    let mut comparison = Comparison::default();
    for vector in golden::vectors().map_err(unreadable)? {
        let Some(found) = vector.found(path).map_err(unreadable)? else { continue };
        let expected = vector.expected().map_err(unreadable)?;
        comparison.same(found == expected, || {
            format!("{}: expected the bits {expected:x?}, found {found:x?}", vector.operation())
        });
    }
    if let Path::Scalar = path {
        for PhiloxBlock { key, counter, out: expected } in golden::philox().map_err(unreadable)? {
            let found = scalar::philox(key, counter);
            comparison.same(found == expected, || format!("philox: expected {expected:x?}, found {found:x?}"));
        }
    }
    Ok(comparison.line(Gate::Arithmetic, None, format!("golden vectors, {name}")))
}

/// A model, with what its plain forward pass gives.
#[derive(Clone)]
struct Reference {
    small: Arc<SmallModel>,
    name: String,
    kv_type: KvType,
    jobs: Vec<Job>,
    answers: Vec<Answer>,
}

/// A greedy answer.
#[derive(Clone)]
struct Answer {
    tokens: Vec<TokenId>,
    /// The row of each of them.
    rows: Vec<Vec<f32>>,
}

impl Reference {
    fn new(architecture: Architecture, format: WeightFormat) -> Result<Self, GateError> {
        let (description, name) = match architecture {
            Architecture::Llama => (SyntheticModel::llama(SEED), "llama"),
            Architecture::Lfm2 => (SyntheticModel::lfm2(SEED), "lfm2"),
        };
        let small = SmallModel::new(&description.with_format(format))?;
        // The type of the cache is a parameter of the contract: both are tried.
        let kv_type = if format.is_quantized() { KvType::F16 } else { KvType::F32 };
        let vocabulary = small.model.config.vocabulary_size;
        let prompts = PROMPTS.iter().zip(0..).map(|(length, number)| {
            (0..*length).map(|index| TokenId(below(PROMPT_KEY, [number, index, 0], vocabulary) as u32)).collect()
        });
        let sampling = Sampling { temperature: Some(0.0), ..Sampling::default() };
        let job = |prompt| Job { prompt, sampling: sampling.clone(), max_tokens: ANSWER, grammar: None };
        let jobs: Vec<Job> = prompts.map(job).collect();
        let wrong = |why: String| GateError::Reference { what: "the plain forward pass", why };
        let plain =
            PlainModel::new(&small.model, Products::Scalar, kv_type).map_err(|error| wrong(error.to_string()))?;
        let answers = jobs.iter().map(|job| answer(&plain, job).map_err(wrong)).collect::<Result<_, _>>()?;
        Ok(Self { name: format!("{format} {name}"), small: Arc::new(small), kv_type, jobs, answers })
    }
}

/// Plain greedy decoding.
fn answer(plain: &PlainModel<'_>, job: &Job) -> Result<Answer, String> {
    let mut memory = plain.start();
    let mut feed = |token: TokenId| {
        let hidden = plain.feed(&mut memory, token.0).map_err(|error| error.to_string())?;
        Ok::<_, String>(hidden)
    };
    let mut hidden = Vec::new();
    for token in &job.prompt {
        hidden = feed(*token)?;
    }
    let mut answer = Answer { tokens: Vec::new(), rows: Vec::new() };
    loop {
        let row = plain.logits(&plain.head_input(&hidden));
        let best = scalar::row_statistics(&row).argmax.ok_or("expected a row with a best token, found none")?;
        answer.rows.push(row);
        answer.tokens.push(TokenId(best));
        if answer.tokens.len() == job.max_tokens as usize {
            return Ok(answer);
        }
        hidden = feed(TokenId(best))?;
    }
}

/// Drafts the answers, in counts of every length, with a wrong token now and then.
struct Varying {
    answers: Vec<Vec<TokenId>>,
    drafts: usize,
    vocabulary: u32,
}

impl Drafter for Varying {
    fn propose(&mut self, sequences: &[DraftContext<'_>]) -> Result<Vec<Vec<Draft>>, BackendError> {
        let propose = |context: &DraftContext<'_>| {
            let emitted = context.tokens.len() - context.prompt;
            let request = context.sequence.request.0;
            let chance = |which, bound| below(PROMPT_KEY, [request as u32, emitted as u32, which], bound);
            let answer = self.answers.get(request as usize).and_then(|answer| answer.get(emitted..));
            // A long query and then a short one is what recurrent state has to be right for.
            let count = if emitted.is_multiple_of(2) { self.drafts } else { chance(1, self.drafts + 1) };
            let mut drafts: Vec<TokenId> = answer.unwrap_or(&[]).iter().take(count).copied().collect();
            let wrong = chance(2, 2 * self.drafts + 1);
            if let Some(draft) = drafts.get_mut(wrong) {
                *draft = TokenId((draft.0 + 1) % self.vocabulary);
            }
            drafts.into_iter().map(Draft::certain).collect()
        };
        Ok(sequences.iter().map(propose).collect())
    }
}

/// Every model on a device in every setting, against its plain forward pass.
fn rows_line(
    fixture: &Fixture,
    device: Device,
    references: &[Reference],
    settings: &[Setting],
    fault: Option<Fault>,
) -> Result<Line, GateError> {
    let mut comparison = Comparison::default();
    for reference in references {
        for setting in settings {
            compare(&mut comparison, fixture, device, (reference, *setting), fault)?;
        }
    }
    let models = match references {
        [reference] => reference.name.clone(),
        _ => format!("{} models in {} ways", references.len(), settings.len()),
    };
    Ok(comparison.line(Gate::Arithmetic, fault, format!("{}: {models}", device.name())))
}

fn compare(
    comparison: &mut Comparison,
    fixture: &Fixture,
    device: Device,
    (reference, setting): (&Reference, Setting),
    fault: Option<Fault>,
) -> Result<(), GateError> {
    let Setting { threads, max_batch, prefill_chunk, drafts } = setting;
    let drafter = Varying {
        answers: reference.answers.iter().map(|answer| answer.tokens.clone()).collect(),
        drafts,
        vocabulary: reference.small.model.config.vocabulary_size as u32,
    };
    let bench = Bench {
        tokenizer: &fixture.tokenizer,
        max_batch,
        prefill_chunk,
        speculation: Speculation { drafts, scheduling: Scheduling::Sync, rule: VerifyRule::Coupled },
        fault,
    };
    let trails = bench.run(device.open(reference, setting)?, Box::new(drafter), &reference.jobs)?;
    if drafts > 0 && fault.is_none() {
        comparison.tried_both(&trails);
    }
    for (request, (answer, trail)) in reference.answers.iter().zip(&trails).enumerate() {
        let told = || {
            let name = &reference.name;
            format!(
                "{name}, {threads} threads, batches of {max_batch}, chunks of {prefill_chunk}, {drafts} drafts: request \
                 {request}"
            )
        };
        for judged in trail.judged() {
            // Once the tokens part, the rows are of other texts.
            if answer.tokens.get(..judged.before) != trail.tokens.get(..judged.before) {
                break;
            }
            let (found, expected) = (&judged.row.logits, answer.rows.get(judged.before));
            comparison.same(expected.is_some_and(|expected| same_bits(found, expected)), || {
                let places = expected.into_iter().flatten().zip(found).map(|(a, b)| a.to_bits() != b.to_bits());
                let differ = places.filter(|differs| *differs).count();
                let (token, length) = (judged.before, found.len());
                format!("{}, row of token {token}: {differ} of {length} logits differ from the definition's", told())
            });
        }
        comparison
            .same(answer.tokens == trail.tokens, || format!("{}, {}", told(), parting(&answer.tokens, &trail.tokens)));
    }
    Ok(())
}
