//! Mutations of the header.

use stepscope::capture::records::{
    Component, Device, Header, KernelIdentity, LabelledHash, LogitsTier, ModelIdentity, Recorder, Redaction, Setting,
};
use stepscope::replay::CheckName::{Commit, Forward, Logits, Params, Prompt};

use super::Expected::{Everywhere, Finding, Nothing, Refused, Skipped};
use super::{Mutation, of_header};

/// Lists every field: a new one does not compile until it is named here, and should then stand in the table.
fn _every_field(header: Header) {
    let Header {
        format_version: _,
        recorder: Recorder { name: _, version: _, build: _ },
        sampler_semantics: _,
        arithmetic_version: _,
        epoch_ns: _,
        model: _,
        device: _,
        configuration: _,
        components: _,
        faults: _,
        logits_tier: _,
        redactions: _,
    } = header;
}

fn _every_field_of_the_model(model: ModelIdentity) {
    let ModelIdentity {
        name: _,
        architecture: _,
        vocabulary_size: _,
        file_bytes: _,
        hashes: _,
        tokenizer_hashes: _,
        chat_template_hashes: _,
        end_tokens: _,
        context_length: _,
    } = model;
}

fn model(header: &mut Header) -> &mut ModelIdentity {
    header.model.as_mut().expect("the model is recorded")
}

fn device(header: &mut Header) -> &mut Device {
    header.device.as_mut().expect("the device is recorded")
}

/// Another hash of the same algorithm.
fn other(hashes: &mut [LabelledHash]) {
    for hash in hashes {
        hash.hex = hash.hex.chars().map(|digit| if digit == '0' { '1' } else { '0' }).collect();
    }
}

fn setting<'a>(header: &'a mut Header, name: &str) -> &'a mut Setting {
    header.configuration.iter_mut().find(|setting| setting.name == name).expect("the setting is recorded")
}

pub fn table() -> Vec<Mutation> {
    vec![
        of_header("recorder", Nothing("names the program; no decision depends on it"), |header| {
            header.recorder.name = "another".to_owned();
        }),
        of_header("sampler_semantics", Skipped(Params), |header| header.sampler_semantics = "another".to_owned()),
        of_header("arithmetic_version", Skipped(Forward), |header| header.arithmetic_version = Some(99)),
        of_header("arithmetic_version, unknown", Skipped(Logits), |header| header.arithmetic_version = None),
        of_header("epoch_ns", Nothing("a calendar time; this chat template shows no date"), |header| {
            header.epoch_ns += 1;
        }),
        of_header("model, unknown", Skipped(Forward), |header| header.model = None),
        of_header("model.name", Finding(Commit), |header| model(header).name.push('x')),
        of_header("model.architecture", Finding(Commit), |header| {
            model(header).architecture = Some("llama".to_owned())
        }),
        of_header("model.vocabulary_size", Finding(Commit), |header| model(header).vocabulary_size = Some(1_000)),
        of_header("model.file_bytes", Finding(Commit), |header| model(header).file_bytes = Some(1)),
        of_header("model.hashes", Refused("was recorded with a model whose"), |header| {
            other(&mut model(header).hashes)
        }),
        of_header("model.hashes, unknown", Skipped(Forward), |header| model(header).hashes.clear()),
        of_header("model.tokenizer_hashes", Skipped(Prompt), |header| other(&mut model(header).tokenizer_hashes)),
        of_header("model.chat_template_hashes", Skipped(Prompt), |header| {
            other(&mut model(header).chat_template_hashes);
        }),
        of_header("model.end_tokens", Finding(Commit), |header| model(header).end_tokens = Some(vec![100])),
        of_header("model.context_length", Finding(Commit), |header| model(header).context_length = Some(99)),
        of_header("device.name", Nothing("where it ran; every device gives the same bits"), |header| {
            device(header).name = Some("another".to_owned());
        }),
        of_header("device.threads", Finding(Commit), |header| device(header).threads = Some(77)),
        of_header("device.kernels", Nothing("which code ran; every code gives the same bits"), |header| {
            device(header).kernels.push(KernelIdentity { name: "another".to_owned(), hashes: Vec::new() });
        }),
        of_header("configuration.tier", Finding(Commit), |header| {
            setting(header, "tier").value = "\"full\"".to_owned()
        }),
        of_header("configuration.context-length", Finding(Commit), |header| {
            setting(header, "context-length").value = "100".to_owned();
        }),
        of_header("configuration.kv-type", Everywhere(Forward), |header| {
            setting(header, "kv-type").value = "\"f16\"".to_owned();
        }),
        of_header("configuration.source", Nothing("says who chose; no decision depends on it"), |header| {
            setting(header, "tier").source = Some("flag".to_owned());
        }),
        of_header("components", Skipped(Prompt), |header| {
            header.components = vec![Component { name: "tokenizers".to_owned(), version: "0.0.1".to_owned() }];
        }),
        of_header("faults", Nothing("only `info` reads it: verdicts are the same with it stripped"), |header| {
            header.faults.push("another".to_owned());
        }),
        of_header("logits_tier", Finding(Commit), |header| header.logits_tier = LogitsTier::Full),
        of_header("logits_tier, off", Finding(Commit), |header| header.logits_tier = LogitsTier::Off),
        of_header("redactions", Nothing("says what is left out; nothing is"), |header| {
            header.redactions.push(Redaction { field: "another".to_owned(), how: "omitted".to_owned() });
        }),
    ]
}
