//! The sketches of a row are found wherever chunks end.

use super::support::*;
use crate::capture::records::SketchRecord;
use crate::capture::{CaptureReader, CaptureWriter, WriterOptions, verify};
use crate::types::StepId;

/// Sketches per row.
const COUNT: u32 = 40;

#[test]
fn sketches_of_a_row_may_stand_in_several_chunks() {
    let (_directory, path) = place();
    let options = WriterOptions { flush_interval: std::time::Duration::ZERO, ..WriterOptions::default() };
    let writer = CaptureWriter::create(&path, header(), options).unwrap();
    writer.write(admission(0)).unwrap();
    for index in 0..20 {
        writer.write(step(index, 0, vec![row(index, 0)])).unwrap();
        writer.write_row(key(index, 0), logits(index, 0)).unwrap();
        for layer in 0..COUNT {
            let operation = "layer".to_owned();
            let values = vec![index as f32; 5];
            let sketch =
                SketchRecord { step: index, request: 0, choice: 0, row: 0, layer: Some(layer), operation, values };
            writer.write(sketch).unwrap();
            if layer % 8 == 0 {
                // The writer ends a chunk when it is given time.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
    writer.write(completion(0, 20)).unwrap();
    writer.finish().unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    assert!(reader.chunks().0 > 50, "{:?} chunks", reader.chunks());
    assert_eq!(verify(&reader).unwrap().findings, Vec::<String>::new());
    for index in 0..20 {
        let found = reader.sketches(StepId(index), sequence(0), 0).unwrap();
        let layers: Vec<_> = found.iter().map(|sketch| sketch.layer.unwrap()).collect();
        assert_eq!(layers, (0..COUNT).collect::<Vec<_>>(), "step {index}");
        assert!(found.iter().all(|sketch| sketch.values == [index as f32; 5]));
        assert!(reader.logits(StepId(index), sequence(0), 0).unwrap().is_some());
    }
}
