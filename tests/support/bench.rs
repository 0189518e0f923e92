//! Recording with the real binary on small random models, in a folder of its own.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use stepscope::arith::{Isa, Kernels};
use stepscope::capture::CaptureReader;
use stepscope::model::synthetic::SyntheticModel;
use tempfile::TempDir;

use crate::command::{Run, stepscope};

/// A folder with a model and a file of requests.
pub struct Bench {
    folder: TempDir,
    runs: std::cell::Cell<usize>,
}

/// What a run left behind.
pub struct Recorded {
    pub run: Run,
    pub outputs: String,
    pub capture: PathBuf,
}

impl Bench {
    pub fn new(model: &SyntheticModel, requests: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        model.write_gguf(&folder.path().join("model.gguf")).unwrap();
        fs::write(folder.path().join("requests.jsonl"), requests).unwrap();
        Self { folder, runs: std::cell::Cell::new(0) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Records with `arguments` besides the required ones.
    pub fn record(&self, arguments: &[&str]) -> Recorded {
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
    pub fn lines(&self) -> Vec<Value> {
        self.outputs.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Positions that the steps took from the prefix cache, in all.
    pub fn cached_positions(&self) -> u32 {
        let reader = CaptureReader::open(&self.capture).unwrap();
        let steps = reader.sequences().flat_map(|sequence| reader.steps(sequence));
        steps.map(|step| step.unwrap().cached_prefix.unwrap()).sum()
    }
}

pub fn line(id: &str, url: &str, body: Value) -> String {
    json!({ "custom_id": id, "method": "POST", "url": url, "body": body }).to_string() + "\n"
}

/// Greedy and seeded requests of every shape, with shared prefixes, in two rounds so that the second one can be warm.
pub fn varied_requests() -> String {
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
        lines += &chat(
            "choices",
            json!({ "seed": 0, "n": 3, "min_p": 0.01, "max_tokens": 12, "logprobs": true, "top_logprobs": 3 }),
        );
        lines += &chat(
            "penalties",
            json!({
                "seed": 1, "temperature": 1.3, "top_k": 40, "max_tokens": 20, "repetition_penalty": 1.1,
                "presence_penalty": 0.5, "frequency_penalty": 0.25, "logit_bias": { "40": 2.5, "41": -100 },
            }),
        );
        lines += &text("short", json!("a"), json!({ "temperature": 0, "max_tokens": 40, "ignore_eos": true }));
        lines += &text(
            "stop",
            json!("and the"),
            json!({ "seed": 3, "max_tokens": 60, "stop": ["e", "th"], "min_tokens": 3 }),
        );
        lines += &text(
            "tokens",
            json!((5..100).collect::<Vec<u32>>()),
            json!({ "temperature": 0, "max_tokens": 5, "logprobs": 2 }),
        );
        lines += &text(
            "long",
            json!(long),
            json!({ "seed": 18446744073709551615u64, "max_tokens": 33, "ignore_eos": true }),
        );
    }
    lines
}

/// Requests whose outputs have a form: every kind of constraint, greedy and drawn.
pub fn constrained_requests() -> String {
    let chat = |name: &str, mut body: Value| {
        body["messages"] = json!([{ "role": "user", "content": format!("Say {name}") }]);
        line(name, "/v1/chat/completions", body)
    };
    let text = |name: &str, prompt: Value, mut body: Value| {
        body["prompt"] = prompt;
        line(name, "/v1/completions", body)
    };
    let mut lines = String::new();
    lines +=
        &chat("object", json!({ "temperature": 0, "max_tokens": 24, "response_format": { "type": "json_object" } }));
    let schema = json!({
        "type": "object", "required": ["name", "count"], "additionalProperties": false,
        "properties": { "name": { "type": "string", "maxLength": 9 }, "count": { "type": "integer", "maximum": 99 } },
    });
    lines += &chat(
        "schema",
        json!({
            "seed": 6, "max_tokens": 60,
            "response_format": { "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } },
        }),
    );
    let tool = |name: &str, parameters: Value| json!({ "type": "function", "function": { "name": name, "description": "Looks.", "parameters": parameters } });
    let place =
        json!({ "type": "object", "properties": { "place": { "enum": ["north", "south"] } }, "required": ["place"] });
    let tools = json!([tool("look", place), tool("wait", json!({ "type": "object", "properties": {} }))]);
    for (name, choice, drawn) in [
        ("call-required", json!("required"), json!(0)),
        ("call-named", json!({ "type": "function", "function": { "name": "wait" } }), json!(0.7)),
        ("call-auto", json!("auto"), json!(0.9)),
    ] {
        let body = json!({
            "seed": 9, "temperature": drawn, "max_tokens": 50, "tools": tools, "tool_choice": choice,
            "parallel_tool_calls": false,
        });
        lines += &chat(name, body);
    }
    lines += &text(
        "regex",
        json!("a date:"),
        json!({
            "temperature": 0, "max_tokens": 30, "ignore_eos": true,
            "structured_outputs": { "regex": "[12][0-9]{3}-[01][0-9]-[0-3][0-9]" },
        }),
    );
    lines += &chat(
        "choice",
        json!({
            "seed": 8, "n": 2, "max_tokens": 20, "stop": ["ry"], "logprobs": true,
            "structured_outputs": { "choice": ["strawberry", "blueberry", "plum"] },
        }),
    );
    lines
}

/// The instruction sets that this machine has.
pub fn isas() -> Vec<&'static str> {
    let names = [(Isa::Scalar, "scalar"), (Isa::Avx2, "avx2"), (Isa::Avx512, "avx512")];
    names.into_iter().filter(|&(isa, _)| Kernels::new(isa).is_ok()).map(|(_, name)| name).collect()
}
