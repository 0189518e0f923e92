//! `make bench-million`: time and memory of every command that reads captures, on one of a million steps.
//!
//! The steps are those of an incident's capture, over and over: every copy has requests, steps and times of its own. Logits rows
//! are left out. Each command runs on a tenth of the steps, too, which shows how its costs grow.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stepscope::capture::records::{LogitsTier, RequestRecord};
use stepscope::capture::{CaptureReader, CaptureWriter, Record, WriterOptions};

type Failure = Box<dyn std::error::Error>;

const INCIDENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/incident");
const STEPS: [u64; 2] = [100_000, 1_000_000];

/// What is measured: a command, and what it is called with beside its captures.
struct Measured {
    command: &'static str,
    captures: &'static [&'static str],
    arguments: &'static [&'static str],
}

const fn measured(
    command: &'static str,
    captures: &'static [&'static str],
    arguments: &'static [&'static str],
) -> Measured {
    Measured { command, captures, arguments }
}

const MODELS: [&str; 2] = ["target", "draft"];

const COMMANDS: [Measured; 11] = [
    measured("info", &["faulty"], &[]),
    measured("verify", &["faulty"], &[]),
    measured("recover", &["cut"], &["--out", "recovered.mcap"]),
    measured("dump", &["faulty"], &[]),
    measured("export", &["faulty"], &["--out", "steps.parquet"]),
    measured("replay", &["faulty"], &["--level", "cheap", "--model", "target.gguf", "--draft-model", "draft.gguf"]),
    measured("correlate", &["faulty"], &["--permutations", "0"]),
    measured("correlate", &["faulty"], &[]),
    measured("diff", &["clean", "faulty"], &[]),
    measured("localize", &["faulty"], &["--model", "target.gguf", "--request", "call-00-0"]),
    measured("report", &["faulty"], &["--out", "report.html"]),
];

fn main() -> Result<(), Failure> {
    println!("machine: {} cores", std::thread::available_parallelism()?);
    let folder = tempfile::tempdir()?;
    for model in MODELS {
        std::fs::copy(format!("{INCIDENT}/{model}.gguf"), folder.path().join(format!("{model}.gguf")))?;
    }
    for steps in STEPS {
        for name in ["clean", "faulty"] {
            let path = folder.path().join(format!("{name}.mcap"));
            let grown = grow(&PathBuf::from(format!("{INCIDENT}/{name}.mcap")), &path, steps)?;
            println!("{name}: {grown} step records, {} bytes", std::fs::metadata(&path)?.len());
        }
        cut(&folder.path().join("faulty.mcap"), &folder.path().join("cut.mcap"))?;
        println!("{:<40} {:>10} {:>12}  exit", "command", "seconds", "peak MiB");
        for Measured { command, captures, arguments } in &COMMANDS {
            let mut program = Command::new(env!("CARGO_BIN_EXE_stepscope"));
            program.current_dir(folder.path()).arg(command).args(*arguments);
            program.args(captures.iter().map(|capture| format!("{capture}.mcap")));
            let started = Instant::now();
            let child = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            let (peak, exit) = watch(child)?;
            let options = if arguments.first() == Some(&"--out") { &[] } else { *arguments };
            let line = format!("{command} {}", options.get(..2).unwrap_or_default().join(" "));
            println!("{line:<40} {:>10.2} {peak:>12}  {exit}", started.elapsed().as_secs_f64());
            for made in ["recovered.mcap", "steps.parquet", "report.html"] {
                let _ = std::fs::remove_file(folder.path().join(made));
            }
        }
        for name in ["clean", "faulty", "cut"] {
            std::fs::remove_file(folder.path().join(format!("{name}.mcap")))?;
        }
        println!();
    }
    Ok(())
}

/// Peak resident memory in MiB, as the system tells it while the process runs, and how it ended.
fn watch(mut child: Child) -> Result<(u64, String), Failure> {
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let told = std::fs::read_to_string(&status_file).unwrap_or_default();
        let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kibibytes.unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            return Ok((peak / 1024, status.to_string()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes copies of a capture's requests, steps and masks until there are at least so many step records; gives their number.
fn grow(from: &Path, to: &Path, wanted: u64) -> Result<u64, Failure> {
    let reader = CaptureReader::open(from)?;
    let mut header = reader.header().clone();
    header.logits_tier = LogitsTier::Off;
    let records: Vec<Record> =
        reader.messages().map(|message| message.map(|message| message.record)).collect::<Result<_, _>>()?;
    let writer = CaptureWriter::create(to, header, WriterOptions::default())?;
    let requests = 1 + reader.requests().map(|request| request.0).max().ok_or("no request")?;
    let steps = records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step.step),
        _ => None,
    });
    let steps = 1 + steps.max().ok_or("no step")?;
    let times = 1 + records.iter().filter_map(Record::time_ns).max().unwrap_or(0);
    let mut written = 0;
    for copy in 0.. {
        for record in &records {
            let Some(record) = moved(record, copy, requests, steps, times) else { continue };
            written += u64::from(matches!(record, Record::Step(_)));
            writer.write(record)?;
        }
        if written >= wanted {
            break;
        }
    }
    writer.finish()?;
    Ok(written)
}

/// A record as the copy of that number has it; `None` of those that a copy does not have.
fn moved(record: &Record, copy: u64, requests: u64, steps: u64, times: u64) -> Option<Record> {
    let mut record = record.clone();
    match &mut record {
        Record::Request(request) => match request.as_mut() {
            RequestRecord::Admitted(admission) => {
                admission.request += copy * requests;
                admission.time_ns += copy * times;
                admission.client_id = admission.client_id.take().map(|id| format!("{id}-{copy}"));
            }
            RequestRecord::Finished(completion) => {
                completion.request += copy * requests;
                completion.time_ns += copy * times;
            }
            RequestRecord::Refused(refusal) => {
                refusal.request += copy * requests;
                refusal.time_ns += copy * times;
                refusal.client_id = refusal.client_id.take().map(|id| format!("{id}-{copy}"));
            }
        },
        Record::Step(step) => {
            step.step += copy * steps;
            step.request += copy * requests;
            step.time_ns = step.time_ns.map(|time| time + copy * times);
            let neighbours = step.batch.iter_mut().flat_map(|batch| &mut batch.neighbours);
            neighbours.for_each(|(request, _)| *request += copy * requests);
        }
        Record::Mask(_) => {}
        Record::Header(_)
        | Record::Logits(_)
        | Record::Sketch(_)
        | Record::Event(_)
        | Record::Loss(_)
        | Record::Columns(_) => return None,
    }
    Some(record)
}

/// The first half of a file.
fn cut(from: &Path, to: &Path) -> Result<(), Failure> {
    let half = std::fs::metadata(from)?.len() / 2;
    std::io::copy(&mut std::io::Read::take(File::open(from)?, half), &mut File::create(to)?)?;
    Ok(())
}
