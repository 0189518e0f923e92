//! The `stepscope` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepscope::cli::main()
}
