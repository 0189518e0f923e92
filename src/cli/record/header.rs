//! The capture's header: what made it, and under which rules.

use super::settings::{Settings, Sizes};
use super::speculation::Drafting;
use crate::arith::Isa;
use crate::backend::{DeviceDescription, KernelDescription};
use crate::built_from;
use crate::capture::records::{
    Component, Device, FORMAT_VERSION, Header, KernelIdentity, LabelledHash, ModelIdentity, Recorder,
};
use crate::engine::Clock;
use crate::hash::Hash;
use crate::model::{Model, Tokenizer};

/// The header of a capture that this build makes of `model`, running on `device`.
pub(super) fn header(
    settings: &Settings,
    sizes: &Sizes,
    model: &Model,
    device: &DeviceDescription,
    drafting: &Drafting,
    clock: &Clock,
) -> Header {
    let component = |(name, version): (&str, &str)| Component { name: name.to_owned(), version: version.to_owned() };
    Header {
        format_version: FORMAT_VERSION,
        recorder: Recorder {
            name: "stepscope".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: Some(built_from::in_words()),
        },
        sampler_semantics: "stepscope".to_owned(),
        arithmetic_version: Some(device.arithmetic_version),
        epoch_ns: clock.epoch_ns(),
        model: Some(identity(model, sizes)),
        device: Some(device_record(device)),
        configuration: settings.recorded.iter().chain(&drafting.recorded).cloned().collect(),
        components: vec![component(Tokenizer::COMPONENT), component(settings.grammar.backend.component())],
        faults: settings.inject.iter().map(|fault| fault.name().to_owned()).collect(),
        logits_tier: settings.tier.in_header(),
        redactions: Vec::new(),
    }
}

fn identity(model: &Model, sizes: &Sizes) -> ModelIdentity {
    let identity = &model.identity;
    ModelIdentity {
        name: identity.name.clone(),
        architecture: Some(identity.architecture.name().to_owned()),
        vocabulary_size: Some(model.config.vocabulary_size as u32),
        file_bytes: Some(identity.file_bytes),
        hashes: hashes(identity.file_hashes()),
        tokenizer_hashes: hashes(identity.tokenizer_hashes()),
        chat_template_hashes: hashes(identity.chat_template_hashes()),
        end_tokens: Some(model.tokenizer.end_tokens().iter().map(|token| token.0).collect()),
        context_length: Some(sizes.context_length as u32),
    }
}

fn hashes(hashes: &[Hash]) -> Vec<LabelledHash> {
    hashes.iter().map(LabelledHash::from).collect()
}

fn device_record(device: &DeviceDescription) -> Device {
    let isa = device.isa.map(|isa| match isa {
        Isa::Scalar => "scalar",
        Isa::Avx2 => "avx2",
        Isa::Avx512 => "avx512",
    });
    let kernel =
        |kernel: &KernelDescription| KernelIdentity { name: kernel.name.clone(), hashes: hashes(&kernel.hashes) };
    Device {
        backend: device.backend.to_owned(),
        name: device.name.clone(),
        isa: isa.map(str::to_owned),
        threads: Some(device.threads as u32),
        kernels: device.kernels.iter().map(kernel).collect(),
    }
}
