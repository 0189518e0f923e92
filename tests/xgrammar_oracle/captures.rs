//! The masks that vLLM filled with the same version of the library, filled again.

use std::path::Path;

use stepscope::capture::CaptureReader;
use stepscope::capture::records::MaskRecord;
use stepscope::grammar::{Backend, Constraint};
use stepscope::types::TokenId;

use crate::as_vllm;
use crate::support::Vocabulary;

#[test]
fn the_rows_of_vllm_follow_from_the_tokens() {
    let vocabulary = Vocabulary::real(as_vllm());
    let (mut rows, mut kinds) = (0, Vec::new());
    for name in ["sync-ngram", "async-draft-model", "newer-runner", "hybrid", "mixed-batch", "neighbours-mask"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("captures/vllm/{name}.mcap"));
        let reader = CaptureReader::open(&path).unwrap();
        let (library, version) = Backend::Xgrammar.component();
        let has_library = |component: &stepscope::capture::records::Component| {
            component.name == library && component.version == version
        };
        assert!(reader.header().components.iter().any(has_library), "{name}");
        for sequence in reader.sequences() {
            let records = reader.request(sequence.request).unwrap();
            let Some(constraint) = records.admission.as_ref().and_then(|admission| admission.constraint.as_ref())
            else {
                continue;
            };
            kinds.push(constraint.kind.clone());
            let constraint = Constraint::from_source(&constraint.kind, &constraint.source).unwrap();
            let mut matcher = vocabulary.compile(&constraint).matcher();
            for step in reader.steps(sequence) {
                let step = step.unwrap();
                // The first row of a step is under the tokens that were emitted before it.
                if let Some(recorded) = step.rows.first().and_then(|row| row.scheduler_mask) {
                    let mask = matcher.mask().unwrap();
                    let hash = MaskRecord::new(mask.vocabulary_size() as u32, mask.bytes()).hash;
                    assert_eq!(hash, recorded, "{name}, request {}, step {}", step.request, step.step);
                    rows += 1;
                }
                // A token that the grammar does not allow is one of the findings of these captures.
                if !step.emitted.iter().all(|token| matcher.consume(TokenId(*token)).is_ok()) {
                    break;
                }
            }
        }
    }
    println!("{rows} rows of {} constrained requests", kinds.len());
    assert!(rows > 100, "{rows} rows");
    for kind in ["json_schema", "regex", "ebnf"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}");
    }
}
