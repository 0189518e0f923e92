//! Runs the real binary.

use std::process::{Command, Stdio};

/// How a run ended.
pub struct Run {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `stepscope` with `arguments`, without a terminal.
pub fn stepscope<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_stepscope"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    Run {
        status: output.status.code().expect("the binary is not killed by a signal"),
        stdout: String::from_utf8(output.stdout).expect("stdout is text"),
        stderr: String::from_utf8(output.stderr).expect("stderr is text"),
    }
}
