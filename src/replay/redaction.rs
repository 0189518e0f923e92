//! Which checks cannot be made where something was left out of a capture, or stands there as a hash.

use super::verdict::{CheckName, Skip};
use crate::capture::records::Header;

/// Whether `header` says that a field was left out, or that something else stands in its place.
pub(crate) fn is_redacted(header: &Header, field: &str) -> bool {
    header.redactions.iter().any(|redaction| redaction.field == field)
}

/// Why a check cannot be made, if what it is made of was taken out. A check that compares tokens with each other alone can
/// be made of hashes.
pub(super) fn blocks(check: CheckName, header: &Header) -> Option<Skip> {
    let own = header.sampler_semantics == "stepscope";
    let needs: &[&str] = match check {
        CheckName::Prompt => &["body", "prompt_text", "prompt_tokens"],
        CheckName::Params => &["body", "params"],
        CheckName::Logits => &["logits"],
        CheckName::Forward => &["prompt_tokens", "emitted", "drafts"],
        CheckName::Drafts if own => &["drafts", "emitted", "prompt_tokens"],
        CheckName::Drafts => &["drafts", "emitted"],
        CheckName::Masks => &["mask", "emitted"],
        CheckName::AppliedMask => &[],
        CheckName::Sampler | CheckName::Termination => &["emitted"],
        CheckName::Validity | CheckName::Accept | CheckName::Commit | CheckName::Signs => &[],
    };
    let taken: Vec<String> =
        needs.iter().filter(|field| is_redacted(header, field)).map(|field| format!("`{field}`")).collect();
    (!taken.is_empty()).then(|| Skip::missing(format!("redacted in the capture: {}", taken.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_is_named() {
        let json = r#"{"format_version": 3, "recorder": {"name": "a", "version": "0"}, "sampler_semantics": "stepscope",
            "epoch_ns": "0", "logits_tier": "off", "redactions": [{"field": "emitted", "how": "hashed"}]}"#;
        let header: Header = serde_json::from_str(json).unwrap();
        let why = blocks(CheckName::Forward, &header).unwrap();
        assert!(why.missing && why.reason == "redacted in the capture: `emitted`", "{why:?}");
        assert_eq!(blocks(CheckName::Prompt, &header), None);
        assert_eq!(blocks(CheckName::Accept, &header), None, "hashes at one place can be compared");
    }
}
