//! The `git` command, asked about a repository.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest that a remote repository is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why git gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    /// It could not be started.
    #[error("git cannot be run: {0}; install it, or put it on PATH")]
    Start(String),
    /// It said no.
    #[error("git {asked}: {said}")]
    Refused {
        /// What it was asked, as arguments.
        asked: String,
        /// What it said.
        said: String,
    },
    /// It did not answer in time.
    #[error("git {asked}: no answer within {} s", PATIENCE.as_secs())]
    Slow {
        /// What it was asked, as arguments.
        asked: String,
    },
}

/// What git answers about the repository at `repository`. No argument may come out of a capture.
pub(super) fn ask(repository: &Path, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
    let mut command = quiet();
    command.arg("-C").arg(repository).args(arguments);
    let output = command.output().map_err(|error| GitError::Start(error.to_string()))?;
    answer(arguments, output)
}

/// The first line of an answer, without the white space around it.
pub(super) fn ask_line(repository: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let answer = ask(repository, arguments)?;
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().trim().to_owned())
}

/// The commit that a reference of a remote repository stands at; `None` if it has no such reference.
pub(super) fn remote_head(url: &str, reference: &str) -> Result<Option<String>, GitError> {
    let arguments = ["ls-remote", "--", url, reference];
    let mut command = quiet();
    let mut child = command.args(arguments).spawn().map_err(|error| GitError::Start(error.to_string()))?;
    let since = Instant::now();
    // The answer to one reference fits into a pipe.
    while child.try_wait().map_err(|error| GitError::Start(error.to_string()))?.is_none() {
        if since.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(GitError::Slow { asked: arguments.join(" ") });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().map_err(|error| GitError::Start(error.to_string()))?;
    let answer = answer(&arguments, output)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    // A short name also matches longer ones that end with it.
    let mut lines: Vec<(&str, &str)> = lines.collect();
    lines.sort_by_key(|(_, name)| name.len());
    Ok(lines.first().map(|(commit, _)| (*commit).to_owned()))
}

/// Without prompts, and with nothing of this process's repository.
fn quiet() -> Command {
    let mut command = Command::new("git");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=20");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_ASKPASS", "SSH_ASKPASS"] {
        command.env_remove(variable);
    }
    command
}

fn answer(arguments: &[&str], output: Output) -> Result<Vec<u8>, GitError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(GitError::Refused { asked: arguments.join(" "), said })
}
