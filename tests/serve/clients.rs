//! The official clients of OpenAI, unchanged. `make test` installs them; a test that has none says so and is skipped.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::Server;
use crate::support::{Bench, calls};

/// The folder that `scripts/openai-clients.sh` makes.
fn folder(client: &str) -> Option<PathBuf> {
    let named = std::env::var_os("STEPSCOPE_OPENAI_CLIENTS").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = named.or_else(|| Some(cache?.join("stepscope/openai-clients")))?.join(client);
    let is_there = folder.join("made-with").exists();
    if !is_there {
        eprintln!("skipped: there is no {}; scripts/openai-clients.sh makes it", folder.display());
    }
    is_there.then_some(folder)
}

/// What a client says that it got, for tool calls, a plain answer and fields of vLLM's.
fn works_with(client: impl Fn(&Server, &str) -> Command) {
    let bench = Bench::incident();
    let server = Server::start(&bench.model, &["--served-model-name", "demo"]);
    let mut requests = calls(3);
    requests.push(json!({"messages": [{"role": "user", "content": "good morning"}], "max_tokens": 12, "seed": 7,
        "extra_body": {"top_k": 40, "min_p": 0.01, "repetition_penalty": 1.1, "ignore_eos": true}}));
    let output = client(&server, &Value::from(requests).to_string()).output().expect("the client starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("the client prints JSON");
    assert_eq!((&told["models"], &told["refused"]), (&json!(["demo"]), &json!("temperature")));
    for (index, answer) in told["answers"].as_array().unwrap().iter().enumerate() {
        assert_eq!(answer["streamed"], answer["whole"]);
        let calls = answer["whole"]["calls"].as_array().unwrap();
        assert_eq!(calls.len(), usize::from(index < 3), "{answer}");
        assert_eq!(answer["whole"]["reasons"], json!([if index < 3 { "tool_calls" } else { "length" }]));
        for call in calls {
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert!(arguments.is_object() && !call["name"].as_str().unwrap().is_empty());
        }
    }
}

fn script(name: &str) -> String {
    format!("{}/tests/serve/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_python_client_works() {
    let Some(folder) = folder("python") else { return };
    works_with(|server, requests| {
        let mut command = Command::new(folder.join("bin/python"));
        command.args([&script("ask.py"), &server.address, &server.model, requests]);
        command
    });
}

#[test]
fn the_node_client_works() {
    let Some(folder) = folder("node") else { return };
    works_with(|server, requests| {
        let mut command = Command::new("node");
        command.args([&script("ask.mjs"), &server.address, &server.model, requests]).env("CLIENT_FOLDER", &folder);
        command
    });
}
