//! `stepscope record`, as a user runs it, on small random models.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::PathBuf;

use command::{Run, stepscope};
use serde_json::{Value, json};
use stepscope::arith::{Isa, Kernels, WeightFormat};
use stepscope::capture::CaptureReader;
use stepscope::model::synthetic::SyntheticModel;
use tempfile::TempDir;

/// A folder with a model and a file of requests.
struct Bench {
    folder: TempDir,
    runs: std::cell::Cell<usize>,
}

/// What a run left behind.
struct Recorded {
    run: Run,
    outputs: String,
    capture: PathBuf,
}

impl Bench {
    fn new(model: &SyntheticModel, requests: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        model.write_gguf(&folder.path().join("model.gguf")).unwrap();
        fs::write(folder.path().join("requests.jsonl"), requests).unwrap();
        Self { folder, runs: std::cell::Cell::new(0) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Records with `arguments` besides the required ones.
    fn record(&self, arguments: &[&str]) -> Recorded {
        let number = self.runs.replace(self.runs.get() + 1);
        let capture = self.path(&format!("{number}.mcap"));
        let outputs = self.path(&format!("{number}.jsonl"));
        let (model, requests) = (self.path("model.gguf"), self.path("requests.jsonl"));
        let required = [("--model", &model), ("--requests", &requests), ("--out", &capture), ("--outputs", &outputs)];
        let mut all = vec!["record".to_owned()];
        for (flag, path) in required {
            all.extend([flag.to_owned(), path.display().to_string()]);
        }
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Recorded { run: stepscope(&all), outputs: fs::read_to_string(outputs).unwrap_or_default(), capture }
    }
}

impl Recorded {
    fn lines(&self) -> Vec<Value> {
        self.outputs.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Positions that the steps took from the prefix cache, in all.
    fn cached_positions(&self) -> u32 {
        let reader = CaptureReader::open(&self.capture).unwrap();
        let steps = reader.sequences().flat_map(|sequence| reader.steps(sequence));
        steps.map(|step| step.unwrap().cached_prefix.unwrap()).sum()
    }
}

fn line(id: &str, url: &str, body: Value) -> String {
    json!({ "custom_id": id, "method": "POST", "url": url, "body": body }).to_string() + "\n"
}

/// Greedy and seeded requests of every shape, with shared prefixes, in two rounds so that the second one can be warm.
fn varied_requests() -> String {
    let long = "the order of the answers is not the order of the questions, and a man of the house said so. ".repeat(3);
    let mut lines = String::new();
    for round in ["a", "b"] {
        let chat = |name: &str, mut body: Value| {
            body["messages"] = json!([
                { "role": "system", "content": long },
                { "role": "user", "content": format!("Say {name}") },
            ]);
            line(&format!("{name}-{round}"), "/v1/chat/completions", body)
        };
        let text = |name: &str, prompt: Value, mut body: Value| {
            body["prompt"] = prompt;
            line(&format!("{name}-{round}"), "/v1/completions", body)
        };
        lines += &chat("greedy", json!({ "temperature": 0, "max_tokens": 40 }));
        lines += &chat("seeded", json!({ "temperature": 0.8, "seed": 7, "top_p": 0.9, "max_tokens": 24 }));
        lines += &chat("choices", json!({ "seed": 0, "n": 3, "min_p": 0.01, "max_tokens": 12, "logprobs": true, "top_logprobs": 3 }));
        lines += &chat("penalties", json!({
            "seed": 1, "temperature": 1.3, "top_k": 40, "max_tokens": 20, "repetition_penalty": 1.1,
            "presence_penalty": 0.5, "frequency_penalty": 0.25, "logit_bias": { "40": 2.5, "41": -100 },
        }));
        lines += &text("short", json!("a"), json!({ "temperature": 0, "max_tokens": 40, "ignore_eos": true }));
        lines += &text("stop", json!("and the"), json!({ "seed": 3, "max_tokens": 60, "stop": ["e", "th"], "min_tokens": 3 }));
        lines += &text("tokens", json!((5..100).collect::<Vec<u32>>()), json!({ "temperature": 0, "max_tokens": 5, "logprobs": 2 }));
        lines += &text("long", json!(long), json!({ "seed": 18446744073709551615u64, "max_tokens": 33, "ignore_eos": true }));
    }
    lines
}

fn isas() -> Vec<&'static str> {
    let names = [(Isa::Scalar, "scalar"), (Isa::Avx2, "avx2"), (Isa::Avx512, "avx512")];
    names.into_iter().filter(|&(isa, _)| Kernels::new(isa).is_ok()).map(|(_, name)| name).collect()
}

/// Every way to schedule and compute gives the same bytes.
fn outputs_do_not_depend_on_the_way(model: &SyntheticModel) {
    let bench = Bench::new(model, &varied_requests());
    let common = ["--prefix-cache", "off", "--prefill-chunk", "512", "--tier", "off"];
    let plain = bench.record(&[&["--max-batch", "1", "--threads", "1", "--isa", "scalar"], &common[..]].concat());
    assert_eq!(plain.run.status, 0, "{}", plain.run.stderr);
    assert_eq!(plain.lines().len(), 16);
    assert!(plain.lines().iter().all(|line| line["response"]["status_code"] == 200), "{}", plain.outputs);
    let mut runs = 0;
    for isa in isas() {
        for max_batch in ["1", "3", "8"] {
            for threads in ["1", "2"] {
                for chunk in ["5", "32", "300"] {
                    for (cache, pages) in [("off", "60"), ("on", "400"), ("on", "14")] {
                        let way = ["--isa", isa, "--max-batch", max_batch, "--threads", threads, "--prefill-chunk", chunk,
                            "--prefix-cache", cache, "--kv-pages", pages, "--tier", "hidden"];
                        let recorded = bench.record(&way);
                        assert_eq!(recorded.run.status, 0, "{way:?}: {}", recorded.run.stderr);
                        assert!(recorded.outputs == plain.outputs, "{way:?} gives other outputs");
                        assert_eq!(recorded.cached_positions() > 0, cache == "on", "{way:?}");
                        fs::remove_file(recorded.capture).unwrap();
                        runs += 1;
                    }
                }
            }
        }
    }
    assert_eq!(runs, 54 * isas().len());
}

#[test]
fn outputs_of_a_llama_model_do_not_depend_on_the_way() {
    outputs_do_not_depend_on_the_way(&SyntheticModel::llama(1).with_format(WeightFormat::Q8_0));
}

#[test]
fn outputs_of_an_lfm2_model_do_not_depend_on_the_way() {
    outputs_do_not_depend_on_the_way(&SyntheticModel::lfm2(2).with_format(WeightFormat::Q4_1));
}
