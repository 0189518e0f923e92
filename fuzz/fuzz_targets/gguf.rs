//! A model file of any bytes: loading it never panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stepscope::model::Model;

fuzz_target!(|data: &[u8]| {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let path = directory.path().join("m.gguf");
    std::fs::write(&path, data).expect("a temporary file");
    let _ = Model::load(&path);
});
