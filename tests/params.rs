//! `stepscope params`: the chain of every parameter, and the exit status.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use stepscope::model::synthetic::SyntheticModel;
use tempfile::TempDir;

/// A folder with a small model in it.
struct Workplace {
    folder: TempDir,
}

impl Workplace {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        SyntheticModel::llama(1).write_gguf(&folder.path().join("model.gguf")).expect("the model can be written");
        Self { folder }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("the file can be written");
        path
    }

    fn params(&self, request: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepscope"));
        command.arg("params").arg("--request").arg(self.file("request.json", request));
        command.arg("--model").arg(self.folder.path().join("model.gguf"));
        command.args(arguments).output().expect("the program runs")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_request_without_warnings_is_clean() {
    let output = Workplace::new().params("{\n  \"prompt\": \"Hi\",\n  \"temperature\": 0.7\n}\n", &[]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{}", text(&output.stderr));
    assert!(table.lines().any(|line| line.starts_with("temperature ") && line.contains("0.7 *")), "{table}");
    assert!(table.contains("every run gets a fresh one"), "{table}");
}

#[test]
fn overrides_of_a_configuration_file_are_a_layer_and_warnings_are_findings() {
    let workplace = Workplace::new();
    let config = workplace.file("server.toml", "[sampling]\ntemperature = 0\nseed = 3\n");
    let config = config.to_str().expect("UTF-8");
    let output = workplace.params(r#"{"prompt": "Hi", "seed": 4, "store": true}"#, &["--json", "--config", config]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let params = found["params"].as_array().expect("an array");
    let seed = params.iter().find(|param| param["name"] == "seed").expect("the seed");
    assert_eq!(seed["layers"], serde_json::json!({"client": 4, "server_override": 3}));
    assert_eq!(found["warnings"].as_array().map(Vec::len), Some(2), "{found}");
}

#[test]
fn a_line_of_a_file_can_be_chosen() {
    let workplace = Workplace::new();
    let file = "{\"prompt\": \"a\"}\n{\"prompt\": \"b\", \"top_p\": 0}\n";
    assert_eq!(workplace.params(file, &["--line", "1"]).status.code(), Some(0));
    let refused = workplace.params(file, &["--line", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("line 2: `top_p`: accepted: a number greater than 0"), "{message}");
    assert!(text(&workplace.params(file, &["--line", "3"]).stderr).contains("no request in line 3"));
    let ambiguous = workplace.params(file, &[]);
    assert_eq!(ambiguous.status.code(), Some(2));
    assert!(text(&ambiguous.stderr).contains("--line"), "{}", text(&ambiguous.stderr));
}

#[test]
fn what_cannot_be_resolved_exits_with_2() {
    let workplace = Workplace::new();
    for (request, expected) in [
        ("", "the file holds no request"),
        (r#"{"prompt": "Hi", "temprature": 0}"#, "did you mean `temperature`?"),
        (r#"{"prompt": [1000000]}"#, "a token id of the vocabulary"),
        ("{\"prompt\": \"Hi\",\n \"seed\": }", "line 2, column 10"),
        (&format!(r#"{{"prompt": "{}"}}"#, "ab ".repeat(600)), "`prompt`: the prompt has"),
        (&format!(r#"{{"messages": [{{"role": "user", "content": "{}"}}]}}"#, "ab ".repeat(600)), "context holds 512"),
    ] {
        let output = workplace.params(request, &[]);
        assert_eq!(output.status.code(), Some(2), "{request}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}
