//! A request file of any bytes: every line is a request or a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stepscope::params::read_lines;

fuzz_target!(|data: &[u8]| {
    let Ok(lines) = read_lines(data) else { return };
    for line in lines {
        if let Err(error) = line.request {
            assert!(!error.to_string().is_empty());
        }
    }
});
