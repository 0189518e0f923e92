//! What a capture says of itself, apart from any request. Part of the check `commit`.

use crate::capture::records::LogitsTier;
use crate::replay::context::Context;
use crate::replay::verdict::Verdict;

/// No two records contradict each other, and the header agrees with the model and with its own configuration.
pub(in crate::replay) fn check(context: &Context<'_>) -> Verdict {
    let mut verdict = Verdict::new();
    let contradictions = context.recording.contradictions();
    for contradiction in &contradictions {
        verdict.mismatch("records", "none that contradict each other".to_owned(), contradiction.clone());
    }
    if contradictions.is_empty() {
        verdict.agrees();
    }
    same_model(&mut verdict, context);
    if context.is_own() {
        same_configuration(&mut verdict, context);
    }
    verdict
}

/// What the header says of the model is true of the model.
fn same_model(verdict: &mut Verdict, context: &Context<'_>) {
    let (Some(recorded), Some(model)) = (context.recorded_model(), context.model()) else { return };
    let end_tokens: Vec<u32> = model.tokenizer.end_tokens().iter().map(|token| token.0).collect();
    if let Some(found) = &recorded.architecture {
        verdict.equal("architecture", model.config.architecture.name(), found.as_str());
    }
    if let Some(found) = recorded.vocabulary_size {
        verdict.equal("vocabulary_size", model.config.vocabulary_size as u32, found);
    }
    if let Some(found) = recorded.file_bytes {
        verdict.equal("file_bytes", model.identity.file_bytes, found);
    }
    if let Some(found) = &recorded.end_tokens {
        verdict.equal("end_tokens", &end_tokens, found);
    }
    if let Some(found) = recorded.context_length.filter(|_| context.is_own()) {
        let setting = context.setting("context-length").and_then(|value| value.as_u64());
        verdict.equal("context_length", setting.unwrap_or(model.config.context_length as u64), found.into());
    }
    if context.is_redacted("model.name") {
        return;
    }
    verdict.equal("model name", model.identity.name.as_str(), recorded.name.as_str());
}

/// What the header says twice, it says alike.
fn same_configuration(verdict: &mut Verdict, context: &Context<'_>) {
    let header = context.recording.header();
    let tier = match header.logits_tier {
        LogitsTier::Hidden => "hidden",
        LogitsTier::Full => "full",
        LogitsTier::TopK => "topk",
        LogitsTier::Off => "off",
    };
    // The tier is that of the recording, whatever was left out of it since.
    if let Some(found) = context.setting("tier").filter(|_| !context.is_redacted("logits")) {
        verdict.equal("logits_tier", found.as_str(), Some(tier));
    }
    let Some(device) = &header.device else { return };
    if let (Some(setting), Some(found)) = (context.setting("threads"), device.threads) {
        verdict.equal("threads", setting.as_u64(), Some(found.into()));
    }
    for (name, found) in [("isa", device.isa.as_deref()), ("backend", Some(device.backend.as_str()))] {
        let chosen = context.setting(name).filter(|value| value != "auto");
        if let (Some(chosen), Some(found)) = (chosen, found) {
            verdict.equal(name, chosen.as_str(), Some(found));
        }
    }
}
