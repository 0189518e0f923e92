//! One message per record type, as docs/capture-format.md shows them.

use crate::capture::records::*;
use crate::capture::{Record, Topic};

/// The sample message of a topic.
pub(super) fn sample(topic: Topic) -> Record {
    match topic {
        Topic::Header => header().into(),
        Topic::Request => admission().into(),
        Topic::Step => step().into(),
        Topic::Mask => MaskRecord::new(12, vec![0b1010_0001, 0b0000_1000]).into(),
        Topic::Logits => LogitsRecord {
            step: 12,
            request: 3,
            choice: 0,
            row: 1,
            payload: LogitsPayload::TopK { ids: vec![345, 7], values: vec![12.5, -0.25] },
        }
        .into(),
        Topic::Sketch => SketchRecord {
            step: 12,
            request: 3,
            choice: 0,
            row: 1,
            layer: Some(2),
            operation: "convolution".into(),
            values: vec![1.0, f32::NEG_INFINITY],
        }
        .into(),
        Topic::Event => EventRecord {
            time_ns: 1_000_000,
            kind: "invalid_row".into(),
            request: Some(3),
            choice: Some(0),
            step: Some(12),
            message: "row 0 has 1 NaN".into(),
        }
        .into(),
        Topic::Loss => LossRecord {
            time_ns: 1_000_000,
            channel: "logits".into(),
            messages: Some(300),
            bytes: Some(70_000),
            steps: Some((4, 12)),
            reason: "the recorder's queue was full".into(),
        }
        .into(),
        // What stands in a batch is Arrow's business.
        Topic::Columns => ColumnsRecord { first: 8192, steps: 4096, batch: vec![0xff, 0xff, 0xff, 0xff] }.into(),
    }
}

fn header() -> Header {
    Header {
        format_version: FORMAT_VERSION,
        recorder: Recorder { name: "example".into(), version: "2.1".into(), build: None },
        sampler_semantics: "vllm".into(),
        arithmetic_version: None,
        epoch_ns: 1_764_442_800_000_000_000,
        model: Some(ModelIdentity {
            name: "tiny".into(),
            architecture: Some("llama".into()),
            vocabulary_size: Some(49_152),
            file_bytes: None,
            hashes: vec![LabelledHash { algorithm: "sha256".into(), hex: "00ff".into() }],
            tokenizer_hashes: vec![],
            chat_template_hashes: vec![],
            end_tokens: Some(vec![2]),
            context_length: None,
        }),
        device: None,
        configuration: vec![Setting { name: "max_batch".into(), value: "8".into(), source: Some("flag".into()) }],
        components: vec![],
        faults: vec![],
        logits_tier: LogitsTier::TopK,
        redactions: vec![],
    }
}

fn admission() -> RequestRecord {
    RequestRecord::Admitted(Admission {
        request: 3,
        client_id: Some("a-1".into()),
        time_ns: 300,
        endpoint: None,
        body: None,
        prompt_text: None,
        add_special_tokens: None,
        prompt_tokens: vec![1, 250, 251, 70_000],
        params: Some(vec![ResolvedField {
            name: "temperature".into(),
            value: "1.0".into(),
            source: ParamSource::ProtocolDefault,
        }]),
        owner: None,
        choices: 1,
        server_overrides: None,
        generation_config: None,
        warnings: vec![],
        constraint: Some(ConstraintRecord { kind: "regex".into(), source: "[a-z]+".into(), begins_after: Some(7) }),
        tool_format: None,
    })
}

fn step() -> StepRecord {
    StepRecord {
        step: 12,
        request: 3,
        choice: 0,
        first_position: 40,
        drafts: vec![345, -1],
        emitted: vec![345],
        time_ns: Some(1_000_000),
        q_len: Some(2),
        prev_accepted: Some(1),
        path: Some(StepPath::Verify),
        scheduler: None,
        batch: Some(BatchPlace { slot: 0, neighbours: vec![(4, 0)] }),
        input_tokens: None,
        cached_prefix: None,
        drafts_raw: None,
        withheld: Some(vec![WithheldDraft { index: 1, reason: WithheldReason::Grammar }]),
        state: None,
        grammar: None,
        verdicts: Some(vec![
            DraftVerdict { p: Some(0.1), q: None, u: None, accepted: true, reason: VerdictReason::Match },
            DraftVerdict { p: None, q: None, u: None, accepted: false, reason: VerdictReason::AfterRejection },
        ]),
        bonus: Some(false),
        stop: None,
        rows: vec![RowRecord {
            position: 40,
            token: Some(345),
            statistics: Some(RowStatistics {
                argmax: Some(345),
                maximum: 12.5,
                log_sum_exp: f32::NAN,
                nan_count: 0,
                positive_infinity_count: 0,
                negative_infinity_count: 1,
                checksum: 0x0123_4567_89ab_cdef,
            }),
            rank: Some(0),
            margin: Some(0.0),
            scheduler_mask: None,
            applied_mask: None,
            mask_population: None,
            logprob: None,
            forced: Some(ForcedToken { token: 345, rank: Some(0), margin: Some(0.0) }),
        }],
        timings: None,
    }
}
