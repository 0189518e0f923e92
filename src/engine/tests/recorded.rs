//! What the recording tap writes of an engine.

use super::super::fake::{Planted, VOCABULARY};
use super::*;
use crate::capture::records::{Header, LogitsPayload, StopReason};
use crate::capture::tap::{CaptureTap, Tier};
use crate::capture::{CaptureReader, CaptureWriter, WriterOptions, row};
use crate::types::StepId;

fn header(tier: Tier) -> Header {
    Header {
        format_version: crate::capture::records::FORMAT_VERSION,
        recorder: crate::capture::records::Recorder { name: "test".to_owned(), version: "0".to_owned(), build: None },
        sampler_semantics: "stepscope".to_owned(),
        arithmetic_version: None,
        epoch_ns: 0,
        model: None,
        device: None,
        configuration: Vec::new(),
        components: Vec::new(),
        faults: Vec::new(),
        logits_tier: tier.in_header(),
        redactions: Vec::new(),
    }
}

#[test]
fn an_invalid_row_is_kept_whole_in_every_tier() {
    for tier in [Tier::Hidden, Tier::Full, Tier::TopK(4), Tier::Off] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.mcap");
        let tap = CaptureTap::new(CaptureWriter::create(&path, header(tier), WriterOptions::default()).unwrap(), tier);
        let (backend, shared) = FakeBackend::new(16, 0);
        let config = EngineConfig { max_batch: 2, prefill_chunk: 64, prefix_cache: true, context_length: CONTEXT };
        let mut engine = Engine::new(Box::new(backend), tokenizer(), config, Clock::start(), tap).unwrap();
        let job = job(1, 4, r#""max_tokens": 6, "temperature": 0"#);
        let mut bad: Vec<f32> = (0..VOCABULARY).map(|id| id as f32).collect();
        bad[19] = f32::NAN;
        shared.lock().unwrap().planted.push(Planted { first_token: job.prompt[0], length: 6, row: bad.clone() });
        engine.submit(job.submission()).1.unwrap();
        while !engine.is_idle() {
            engine.step().unwrap();
        }
        engine.into_tap().finish().unwrap();

        let reader = CaptureReader::open(&path).unwrap();
        let sequence = first_choice(RequestId(0));
        let steps: Vec<_> = reader.steps(sequence).map(|step| step.unwrap()).collect();
        assert_eq!(steps.iter().map(|step| step.emitted.len()).collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(steps[1].rows[0].rank, Some(0), "greedy");
        assert_eq!(steps[2].rows[0].token, None);
        assert!(matches!(&steps[2].stop, Some(StopReason::Failed(why)) if why.contains("invalid logits row")));
        let payload = reader.logits(StepId(2), sequence, 0).unwrap();
        let Some(LogitsPayload::Full { length, bytes }) = payload else { panic!("{tier:?}: {payload:?}") };
        let kept = row::decode_full(length, &bytes).unwrap();
        let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&kept), bits(&bad));
        let events: Vec<_> = reader.events().map(|event| event.unwrap()).collect();
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].kind.as_str(), events[0].step), ("invalid_row", Some(2)));
        let kind = reader.logits(StepId(1), sequence, 0).unwrap();
        let as_the_tier_says = match tier {
            Tier::Hidden => matches!(kind, Some(LogitsPayload::HiddenFloat { .. })),
            Tier::Full => matches!(kind, Some(LogitsPayload::Full { .. })),
            Tier::TopK(count) => matches!(&kind, Some(LogitsPayload::TopK { ids, .. }) if ids.len() == count),
            Tier::Off => kind.is_none(),
        };
        assert!(as_the_tier_says, "{tier:?}: {kind:?}");
    }
}
