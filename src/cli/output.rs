//! Writing results to stdout.

use std::io::{self, BufWriter, Write};

/// Runs `write` on a buffered stdout. A reader that closes the pipe early (`| head`) is no error: the command ends as
/// if it had printed the rest.
///
/// # Errors
/// What `write` returns, other than a broken pipe.
pub fn to_stdout<T: Default>(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = write(&mut out).and_then(|value| Ok(out.flush().map(|()| value)?));
    match result {
        Err(error) if is_broken_pipe(&error) => Ok(T::default()),
        result => result,
    }
}

/// A probability as tables have it.
pub fn chance(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.0e}") }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        // serde_json keeps the kind of the I/O error below it.
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    };
    error.chain().any(is_broken)
}
