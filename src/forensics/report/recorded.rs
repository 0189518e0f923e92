//! What made a capture, under which rules, and what it holds, in words: what is not known says so.

use crate::capture::records::{Device, Header, LabelledHash, LogitsTier, LossRecord, ModelIdentity};
use crate::capture::{CaptureError, CaptureReader, Issue, Survey};

/// A named fact; of several lines the first says most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// What is known, line by line; one at least.
    pub lines: Vec<String>,
}

/// What a capture holds, from a pass over all of its file.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// The capture.
    pub reader: &'a CaptureReader,
    /// What is on each channel, and damage that opening did not see.
    pub survey: Survey,
    /// The loss records that can be read; of others an issue tells.
    pub losses: Vec<LossRecord>,
    /// Requests.
    pub requests: usize,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
}

impl<'a> Recorded<'a> {
    /// Reads every chunk of a capture once.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn read(reader: &'a CaptureReader) -> Result<Self, CaptureError> {
        let losses = reader.losses().filter(|loss| !matches!(loss, Err(CaptureError::Message { .. })));
        let file = std::fs::metadata(reader.path()).map_err(|source| CaptureError::Io {
            path: reader.path().to_owned(),
            action: "ask for the length",
            source,
        })?;
        Ok(Self {
            survey: reader.survey()?,
            losses: losses.collect::<Result<_, _>>()?,
            requests: reader.requests().count(),
            file_bytes: file.len(),
            reader,
        })
    }

    /// What is wrong, as far as it is told one by one.
    pub fn issues(&self) -> impl Iterator<Item = &Issue> {
        self.reader.issues().iter().chain(self.survey.damage.iter())
    }

    /// The file, its length and whether it was finished.
    pub fn file(&self) -> String {
        let state = if self.reader.is_finished() { "finished" } else { "not finished" };
        format!("{} ({} bytes, {state})", self.reader.path().display(), self.file_bytes)
    }

    /// How many requests there are, and the messages of each channel.
    pub fn counts(&self) -> Vec<Fact> {
        let channels = self.survey.channels.iter().map(|(topic, totals)| {
            let missing = if totals.missing > 0 { format!("; {} missing", totals.missing) } else { String::new() };
            let (messages, bytes) = (totals.messages, totals.bytes);
            Fact::new(topic.name(), format!("{messages} messages, {bytes} bytes before compression{missing}"))
        });
        [Fact::new("requests", self.requests.to_string())].into_iter().chain(channels).collect()
    }

    /// The loss records, one line each.
    pub fn losses_in_words(&self) -> impl Iterator<Item = String> {
        self.losses.iter().map(|loss| {
            let messages = loss.messages.map_or("?".to_owned(), |messages| messages.to_string());
            format!("{messages} of `{}`: {}", loss.channel, loss.reason)
        })
    }
}

impl Fact {
    fn new(name: &'static str, line: String) -> Self {
        Self { name, lines: vec![line] }
    }
}

/// Who recorded, under which rules, with which model, on which device, with which components. Planted faults are none of these.
pub fn made_by(header: &Header) -> Vec<Fact> {
    let recorder = &header.recorder;
    let build = recorder.build.as_ref().map_or(String::new(), |build| format!(" ({build})"));
    let arithmetic = header.arithmetic_version.map_or("unknown".to_owned(), |version| format!("arith {version}"));
    let components: Vec<String> =
        header.components.iter().map(|component| format!("{} {}", component.name, component.version)).collect();
    let facts = [
        Fact::new(
            "recorder",
            format!("{} {}{build}, format {}", recorder.name, recorder.version, header.format_version),
        ),
        Fact::new("rules", format!("sampling as {}, arithmetic {arithmetic}", header.sampler_semantics)),
        Fact { name: "model", lines: header.model.as_ref().map_or_else(|| vec!["unknown".to_owned()], model) },
        Fact { name: "device", lines: header.device.as_ref().map_or_else(|| vec!["unknown".to_owned()], device) },
        Fact::new("logits tier", tier_name(header.logits_tier).to_owned()),
    ];
    let components = (!components.is_empty()).then(|| Fact::new("components", components.join(", ")));
    facts.into_iter().chain(components).collect()
}

fn model(model: &ModelIdentity) -> Vec<String> {
    let architecture = model.architecture.as_deref().unwrap_or("architecture unknown");
    let vocabulary = model.vocabulary_size.map_or("?".to_owned(), |size| size.to_string());
    let bytes = model.file_bytes.map_or("?".to_owned(), |bytes| bytes.to_string());
    let mut lines = vec![format!("{} ({architecture}, vocabulary {vocabulary}, {bytes} bytes)", model.name)];
    let hashes = [
        ("weights", &model.hashes),
        ("tokenizer", &model.tokenizer_hashes),
        ("chat template", &model.chat_template_hashes),
    ];
    for (what, hashes) in hashes {
        lines.extend(hashes.iter().map(|LabelledHash { algorithm, hex }| format!("{what} {algorithm} {hex}")));
    }
    lines
}

/// Kernels that are told one by one; `provenance` is there for the rest.
const KERNELS_TOLD: usize = 3;

fn device(device: &Device) -> Vec<String> {
    let name = device.name.as_deref().unwrap_or("name unknown");
    let isa = device.isa.as_deref().unwrap_or("isa unknown");
    let threads = device.threads.map_or("?".to_owned(), |threads| threads.to_string());
    let kernels = device.kernels.iter().take(KERNELS_TOLD).map(|kernel| {
        let hashes: Vec<String> = kernel.hashes.iter().map(|hash| format!("{} {}", hash.algorithm, hash.hex)).collect();
        format!("kernels {} {}", kernel.name, hashes.join(", "))
    });
    let untold = device.kernels.len().saturating_sub(KERNELS_TOLD);
    let untold = (untold > 0).then(|| format!("kernels {untold} more: `stepscope provenance` lists them"));
    [format!("{}, {name}, {isa}, {threads} threads", device.backend)].into_iter().chain(kernels).chain(untold).collect()
}

fn tier_name(tier: LogitsTier) -> &'static str {
    match tier {
        LogitsTier::Hidden => "hidden: what the LM head read, from which each row is recomputed",
        LogitsTier::Full => "full: each row itself",
        LogitsTier::TopK => "topk: the best ids and values of each row",
        LogitsTier::Off => "off: statistics only",
    }
}

/// What replay can promise from such a capture, before it looks at this machine.
pub fn guarantees(header: &Header) -> Vec<&'static str> {
    let has_arithmetic = header.arithmetic_version.is_some();
    let mut words = vec![match (header.logits_tier, has_arithmetic) {
        (LogitsTier::Full, _) => "logits rows: recorded, bit for bit",
        (LogitsTier::Hidden, true) => {
            "logits rows: recomputed from what the head read, bit for bit, with the model at hand"
        }
        (LogitsTier::Hidden, false) => "logits rows: recomputed from what the head read, within a tolerance",
        (LogitsTier::TopK, _) => "logits rows: the best values only; what lies below them cannot be checked",
        (LogitsTier::Off, true) => "logits rows: only by running the model again, then bit for bit by checksum",
        (LogitsTier::Off, false) => "logits rows: none; only statistics, as far as recorded",
    }];
    words.push(if has_arithmetic {
        "forward pass: repeatable bit for bit on any machine, by the arithmetic contract"
    } else {
        "forward pass: repeatable within a tolerance at best; the engine's arithmetic is not defined"
    });
    words.push(if header.sampler_semantics == "stepscope" {
        "sampling: each token follows from its row, the parameters and the seed"
    } else {
        "sampling: foreign rules; whether a token was possible can be checked, and greedy ones exactly"
    });
    if !header.redactions.is_empty() {
        words.push("redacted fields: what depends on them cannot be checked");
    }
    words
}
