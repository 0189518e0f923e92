//! Sketches say which operation went wrong first, and change nothing else.

#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use recorded::{Recorded, record, replay_file, write};
use stepscope::arith::Isa;
use stepscope::capture::Record;
use stepscope::capture::records::{LossRecord, SketchRecord};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::replay::{CheckName, Finding, Report};

const SKETCHED: &str = "max-batch = 3\nprefill-chunk = 24\ndrafter = 'random'\ndrafts = 5\nsketches = 'on'\n";

fn sketches(records: &mut [Record]) -> impl Iterator<Item = &mut SketchRecord> {
    records.iter_mut().filter_map(|record| match record {
        Record::Sketch(sketch) => Some(sketch),
        _ => None,
    })
}

fn replayed(recorded: &Recorded) -> Report {
    replay_file(&recorded.capture, Some(&recorded.model), Isa::Scalar).unwrap()
}

fn changed(recorded: &Recorded, change: impl FnOnce(&mut Vec<Record>)) -> Report {
    let mut records = recorded.records.clone();
    change(&mut records);
    let path = recorded.folder.path().join("changed.mcap");
    write(&records, &path);
    replay_file(&path, Some(&recorded.model), Isa::Scalar).unwrap()
}

#[test]
fn every_row_is_sketched_and_replays() {
    for (model, operations) in [(SyntheticModel::llama(61), 0), (SyntheticModel::lfm2(61), 1)] {
        let mut recorded = record(model, SKETCHED);
        let report = replayed(&recorded);
        assert_eq!((report.findings.len(), report.is_missing_data()), (0, false), "{:?}", report.findings);
        let layers = recorded.model.weights.layers.len();
        let convolutions =
            sketches(&mut recorded.records).filter(|sketch| sketch.operation == "short_convolution").count();
        let embeddings = sketches(&mut recorded.records).filter(|sketch| sketch.operation == "embedding").count();
        assert_eq!(convolutions > 0, operations > 0);
        assert_eq!(embeddings as u64, report.rows);
        // One for the embedding, two per layer, and one more where there is a history.
        assert_eq!(sketches(&mut recorded.records).count(), embeddings * (1 + 2 * layers) + convolutions);
    }
}

#[test]
fn every_instruction_set_sketches_alike() {
    // Of a greedy request: others draw with seeds of the engine's, and may take other steps.
    let of = |isa: &str| -> Vec<(Option<u32>, String, Vec<f32>)> {
        let mut recorded =
            record(SyntheticModel::lfm2(62), &format!("max-batch = 1\nsketches = 'on'\nisa = '{isa}'\n"));
        let greedy = sketches(&mut recorded.records).filter(|sketch| sketch.request == 0);
        greedy.map(|sketch| (sketch.layer, sketch.operation.clone(), sketch.values.clone())).collect()
    };
    let scalar = of("scalar");
    assert!(scalar.len() > 100, "{}", scalar.len());
    for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.is_supported()) {
        assert_eq!(of(isa.name()), scalar, "{isa:?}");
    }
}

#[test]
fn a_sketch_that_is_wrong_or_missing_is_found() {
    let recorded = record(SyntheticModel::lfm2(63), SKETCHED);
    let forward = |report: Report| -> Vec<Finding> {
        assert!(report.findings.iter().all(|finding| finding.check == CheckName::Forward), "{:?}", report.findings);
        report.findings
    };
    let place = |sketch: &SketchRecord| (Some(sketch.request), Some(sketch.step), Some(sketch.row));
    for part in 0..5 {
        let mut expected = None;
        let found = forward(changed(&recorded, |records| {
            let sketch = sketches(records).filter(|sketch| sketch.operation == "history").nth(9).unwrap();
            sketch.values[part] += 1.0;
            expected = Some((place(sketch), format!("layer {}, history", sketch.layer.unwrap())));
        }));
        let found: Vec<_> =
            found.into_iter().map(|finding| ((finding.request, finding.step, finding.row), finding.fact)).collect();
        assert_eq!(found, [expected.unwrap()]);
    }
    let renamed = forward(changed(&recorded, |records| {
        sketches(records).nth(3).unwrap().operation = "attention_scores".to_owned();
    }));
    assert_eq!(renamed.len(), 1);
    assert!(renamed[0].found.contains("attention_scores"), "{renamed:?}");

    let first = |record: &Record| matches!(record, Record::Sketch(_));
    let gone = forward(changed(&recorded, |records| {
        let index = records.iter().position(first).unwrap();
        records.remove(index);
    }));
    assert_eq!(gone[0].fact, "sketches");
    let excused = changed(&recorded, |records| {
        let index = records.iter().position(first).unwrap();
        let Record::Sketch(sketch) = records.remove(index) else { unreachable!("it is a sketch") };
        records.push(Record::Loss(LossRecord {
            time_ns: 1,
            channel: "sketch".to_owned(),
            messages: Some(1),
            bytes: None,
            steps: Some((sketch.step, sketch.step)),
            reason: "the recorder's queue was full".to_owned(),
        }));
    });
    assert_eq!(excused.findings, []);
    assert!(excused.is_missing_data());
}

/// The incident that this repository is about, on a small random model: the first operation that differs is the convolution.
#[test]
fn the_operation_that_first_went_wrong_is_named() {
    let recorded = record(
        SyntheticModel::lfm2(64),
        &format!("{}inject = 'state-bound-by-query'\n", SKETCHED.replace("random", "ngram")),
    );
    let report = replayed(&recorded);
    let first = report.findings.iter().min_by_key(|finding| (finding.step, finding.row)).expect("findings");
    assert_eq!((first.check, first.fact.as_str()), (CheckName::Forward, "layer 0, short_convolution"));
    assert!(first.found.starts_with("zeros alone"), "{first:?}");
    let step = recorded.records.iter().find_map(|record| match record {
        Record::Step(step) if (Some(step.step), Some(step.request)) == (first.step, first.request) => Some(step),
        _ => None,
    });
    let step = step.expect("the step");
    assert!(step.prev_accepted > step.q_len, "{:?} {:?}", step.prev_accepted, step.q_len);
}
