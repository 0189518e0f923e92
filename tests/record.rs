//! `stepscope record`, as a user runs it, on small random models.

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod bench;
#[path = "support/command.rs"]
mod command;

use std::fs;

use bench::{Bench, isas, line, varied_requests};
use command::stepscope;
use serde_json::{Value, json};
use stepscope::arith::WeightFormat;
use stepscope::capture::CaptureReader;
use stepscope::model::synthetic::SyntheticModel;

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
                        let way = [
                            "--isa",
                            isa,
                            "--max-batch",
                            max_batch,
                            "--threads",
                            threads,
                            "--prefill-chunk",
                            chunk,
                            "--prefix-cache",
                            cache,
                            "--kv-pages",
                            pages,
                            "--tier",
                            "hidden",
                        ];
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

const GREEDY: &str = "{\"prompt\": \"the house\", \"temperature\": 0, \"max_tokens\": 8}\n";

fn small_bench() -> Bench {
    Bench::new(&SyntheticModel::lfm2(3), GREEDY)
}

#[test]
fn a_refused_line_says_why_and_the_others_run() {
    let refused = [
        (r#"{"prompt": "a", "temperature": -1}"#, "temperature", "temperature"),
        (r#"{"prompt": "a", "top_p": 0}"#, "top_p", "top_p"),
        (r#"{"prompt": "a", "seed": "1"}"#, "seed", "seed"),
        (r#"{"prompt": "a", "temprature": 1}"#, "temprature", "did you mean `temperature`"),
        (r#"{"prompt": "a", "temperature": 1"#, "", "JSON"),
    ];
    let mut requests = GREEDY.to_owned();
    for (body, ..) in refused {
        requests += &format!("{body}\n");
    }
    let too_long = "ab ".repeat(600);
    requests += &format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{too_long}\"}}]}}\n{GREEDY}");
    let recorded = Bench::new(&SyntheticModel::llama(3), &requests).record(&["--json"]);
    assert_eq!(recorded.run.status, 1, "{}", recorded.run.stderr);
    let lines = recorded.lines();
    assert_eq!(lines.len(), 8);
    for (index, (_, field, says)) in refused.into_iter().enumerate() {
        let error = &lines[index + 1]["response"]["body"]["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("line {}: ", index + 2)), "{message}");
        assert!(message.contains(says), "{message}");
        assert_eq!(error["param"].as_str().unwrap_or_default(), field);
        assert_eq!(lines[index + 1]["response"]["status_code"], 400);
    }
    let past_the_context = &lines[6]["response"]["body"]["error"];
    assert_eq!(past_the_context["param"], "messages");
    assert!(
        past_the_context["message"].as_str().unwrap().contains("the model's context holds 512"),
        "{past_the_context}"
    );
    for line in [&lines[0], &lines[7]] {
        assert_eq!(line["response"]["status_code"], 200);
    }
    let told: Vec<&str> = recorded.run.stderr.lines().filter_map(|line| line.strip_prefix("refused: ")).collect();
    let said = |index: usize| lines[index]["response"]["body"]["error"]["message"].as_str().unwrap();
    assert_eq!(told, (1..=6).map(said).collect::<Vec<_>>(), "{}", recorded.run.stderr);
    let summary: Value = serde_json::from_str(&recorded.run.stdout).unwrap();
    assert_eq!(summary["refusals"][1], json!({"line": 3, "custom_id": null, "field": "top_p", "message": said(2)}));
    assert_eq!((&summary["requests"], &summary["refused"], &summary["failed"]), (&json!(8), &json!(6), &json!(0)));
}

/// Each is told with its line, its field and what is accepted, with and without a file of outputs.
#[test]
fn bad_requests_are_told_and_the_good_ones_run() {
    let bench = Bench::new(&SyntheticModel::llama(3), "");
    let long = "ab ".repeat(600);
    let lines = [
        GREEDY.trim().to_owned(),
        r#"{"prompt": "a", "temperature": -1}"#.to_owned(),
        r#"{"prompt": "a", "top_p": 0}"#.to_owned(),
        r#"{"prompt": "a", "seed": "1"}"#.to_owned(),
        r#"{"prompt": "a", "temprature": 1}"#.to_owned(),
        format!(r#"{{"prompt": "{long}"}}"#),
        r#"{"prompt": "a", "temperature": }"#.to_owned(),
        r#"{"prompt": "a", "user": "me", "store": true, "max_tokens": 2}"#.to_owned(),
        r#"{"prompt": "b", "user": "me", "max_tokens": 2}"#.to_owned(),
    ];
    fs::write(bench.path("requests.jsonl"), lines.join("\n")).unwrap();
    let [model, requests, out] = ["model.gguf", "requests.jsonl", "plain.mcap"].map(|name| bench.path(name));
    let [model, requests, out] = [model, requests, out].map(|path| path.display().to_string());
    let run = stepscope(&["record", "--model", &model, "--requests", &requests, "--out", &out, "--threads", "1"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    for told in [
        "refused: line 2: `temperature`: accepted: 0 (greedy), or a number from 0.01 to 100; found: -1",
        "refused: line 3: `top_p`: accepted: a number greater than 0, up to 1",
        "refused: line 4: `seed`: accepted: a whole number from -9223372036854775808 to 18446744073709551615; found: the \
         string \"1\"",
        "refused: line 5: `temprature` is not a known field; did you mean `temperature`?",
        "refused: line 6: `prompt`: the prompt has ",
        "the model's context holds 512: shorten the prompt to 511 tokens or fewer",
        "refused: line 7: not valid JSON at column 32: expected value; expected one JSON object",
        "warning: line 8 and 1 more: `user` has no effect here and is ignored",
        "warning: line 8: `store` has no effect here and is ignored",
    ] {
        assert!(run.stderr.contains(told), "{told}\n{}", run.stderr);
    }
    assert!(run.stdout.contains("requests   9, of which 6 refused and 0 failed"), "{}", run.stdout);
    assert!(run.stdout.contains("warnings   3, told on stderr"), "{}", run.stdout);
}

#[test]
fn nothing_is_overwritten_and_a_refused_run_leaves_nothing() {
    let bench = small_bench();
    let path = |name: &str| bench.path(name).display().to_string();
    let files = || {
        let entries = fs::read_dir(bench.path("")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let before = files();
    let model = fs::read(bench.path("model.gguf")).unwrap();
    let (inputs, out) = ([path("model.gguf"), path("requests.jsonl")], path("a.mcap"));
    let record = |arguments: &[&str]| {
        stepscope(&[&["record", "--model", &inputs[0], "--requests", &inputs[1]], arguments].concat())
    };
    let taken = "exists already and is not overwritten";
    let detour = format!("{}/./a.mcap", bench.path("").display());
    let missing_folder = path("none/a.jsonl");
    for (arguments, says) in [
        (["--out", &out, "--outputs", &inputs[0], "--isa", "auto"], taken),
        (["--out", &out, "--outputs", &inputs[1], "--isa", "auto"], taken),
        (["--out", &inputs[0], "--outputs", &out, "--isa", "auto"], taken),
        (["--out", &out, "--outputs", &out, "--isa", "auto"], "is where the capture goes"),
        (["--out", &out, "--outputs", &detour, "--isa", "auto"], "is where the capture goes"),
        (["--out", &out, "--outputs", &format!("{out}.partial"), "--isa", "auto"], "is where the capture goes"),
        (["--out", &out, "--outputs", &missing_folder, "--isa", "auto"], "none/a.jsonl: No such file"),
        (
            ["--out", &path("none/a.mcap"), "--outputs", &path("a.jsonl"), "--isa", "auto"],
            "none/a.mcap.partial: cannot",
        ),
        (["--out", &out, "--outputs", &path("a.jsonl"), "--context-length", "1"], "accepted: 2 or more"),
        (["--out", &out, "--outputs", &path("a.jsonl"), "--context-length", "9999"], "found: 9999"),
        (["--out", &out, "--outputs", &path("a.jsonl"), "--threads", "1025"], "a whole number from 1 to 1024"),
        (["--out", &out, "--outputs", &path("a.jsonl"), "--max-batch", "0"], "a whole number from 1 to 1024"),
    ] {
        let run = record(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.matches("No such file").count() <= 1, "{}", run.stderr);
        assert_eq!(files(), before, "{arguments:?}");
    }
    assert!(fs::read(bench.path("model.gguf")).unwrap() == model);
    assert_eq!(record(&["--out", &out, "--outputs", &path("a.jsonl")]).status, 0);
    let again = record(&["--out", &path("b.mcap"), "--outputs", &path("a.jsonl")]);
    assert_eq!((again.status, again.stderr.contains(taken)), (2, true), "{}", again.stderr);
}

#[test]
fn a_model_that_cannot_run_is_an_error_that_says_what_is_accepted() {
    let bench = small_bench();
    let bytes = fs::read(bench.path("model.gguf")).unwrap();
    // Of the same length, so that the rest of the file stays where it is.
    let changed = |from: &str, to: &str| {
        let place = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut bytes = bytes.clone();
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    // The value of a pair follows its key and 4 bytes of type.
    let key = "lfm2.attention.head_count";
    let value = bytes.windows(key.len() + 1).position(|window| window == [key.as_bytes(), &[4]].concat()).unwrap();
    let mut no_heads = bytes.clone();
    no_heads[value + key.len() + 4..][..4].fill(0);
    for (bytes, says) in [
        (changed("lfm2", "lfm9"), "architecture lfm9 is not supported; supported: llama, lfm2"),
        (
            changed("tokenizer.ggml.model", "tokenizer.ggml.mode_"),
            "tokenizer.ggml.model: expected a tokenizer (this file",
        ),
        (no_heads, "lfm2.attention.head_count: expected 1 or more, found 0"),
        (Vec::new(), "byte 0: magic"),
    ] {
        fs::write(bench.path("model.gguf"), bytes).unwrap();
        let run = bench.record(&[]).run;
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{says}");
        assert!(run.stderr.contains("model.gguf: ") && run.stderr.contains(says), "{says}\n{}", run.stderr);
    }
}

#[test]
fn outputs_are_batch_lines_without_a_clock() {
    let requests =
        line("question 1", "/v1/completions", json!({ "prompt": "the", "temperature": 0, "max_tokens": 3 })) + GREEDY;
    let recorded = Bench::new(&SyntheticModel::llama(3), &requests).record(&[]);
    assert_eq!(recorded.run.status, 0, "{}", recorded.run.stderr);
    let [first, second] = &recorded.lines()[..] else { panic!("two lines") };
    assert_eq!(first["custom_id"], "question 1");
    assert_eq!(first["id"], "batch_req_question 1");
    assert_eq!(first["error"], Value::Null);
    let body = &first["response"]["body"];
    assert_eq!(body["id"], "cmpl-question 1");
    assert_eq!(body["created"], 0);
    assert_eq!(body["object"], "text_completion");
    assert_eq!(body["usage"]["completion_tokens"], 3);
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!((&second["custom_id"], &second["id"]), (&Value::Null, &json!("batch_req_line-2")));
}

#[test]
fn every_flag_can_stand_in_the_config_file() {
    let bench = small_bench();
    let [model, requests, out] = ["model.gguf", "requests.jsonl", "configured.mcap"].map(|name| bench.path(name));
    let config = bench.path("config.toml");
    let text = format!(
        "model = {model:?}\nrequests = {requests:?}\nout = {out:?}\nmax-batch = 2\nprefill-chunk = 9\nprefix-cache = 'off'\n\
         context-length = 300\nkv-type = 'f16'\nkv-pages = 40\nthreads = 1\nbackend = 'cpu'\nisa = 'scalar'\ntier = 'topk'\n\
         top-k-rows = 5\noverflow = 'block'\ndrafter = 'ngram'\ndrafts = 3\nscheduling = 'async'\n\
         verify-rule = 'rejection'\nreasoning-end = '</tool_call>'\ngrammar-backend = 'llguidance'\n\
         grammar-whitespace = 'single'\ngrammar-canonical = 'off'\nsketches = 'on'\n\
         tool-format = 'json'\njson = true\n[sampling]\nmin_p = 0.1\n"
    );
    fs::write(&config, text).unwrap();
    let run = stepscope(&["record", "--config", config.to_str().unwrap(), "--threads", "2"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let reader = CaptureReader::open(&out).unwrap();
    let setting = |name: &str| {
        let setting = reader.header().configuration.iter().find(|setting| setting.name == name).unwrap();
        (setting.value.clone(), setting.source.clone().unwrap())
    };
    let from = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(setting("max-batch"), from("2", "config-file"));
    assert_eq!(setting("threads"), from("2", "flag"));
    assert_eq!(setting("outputs"), from("null", "default"));
    assert_eq!(setting("kv-type"), from("\"f16\"", "config-file"));
    assert_eq!(setting("sampling.min_p"), from("0.1", "config-file"));
    assert_eq!(reader.header().model.as_ref().unwrap().context_length, Some(300));
    // Whatever flag there is, the file above has it.
    let help = stepscope(&["record", "--help"]).stdout;
    let flags = help.split_whitespace().filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty());
    for flag in flags.map(|flag| flag.trim_end_matches(|end: char| !end.is_alphanumeric())) {
        let elsewhere =
            ["config", "outputs", "help", "version", "draft-model", "draft-script", "inject"].contains(&flag);
        assert!(elsewhere || fs::read_to_string(&config).unwrap().contains(&format!("{flag} = ")), "--{flag}");
    }
}

#[test]
fn what_cannot_run_exits_2_and_says_what_to_do() {
    let bench = small_bench();
    let xgrammar = match cfg!(feature = "xgrammar") {
        true => "grammar-canonical: xgrammar allows any tokens that spell a text",
        false => "this build lacks xgrammar; build it with `make xgrammar`",
    };
    let config = bench.path("config.toml");
    let flag = config.display().to_string();
    for (text, arguments, says) in [
        ("", &["--backend", "cuda"][..], "--backend cpu"),
        ("", &["--out", "/nowhere/at/all.mcap"], "/nowhere/at/all.mcap"),
        ("", &["--context-length", "100000"], "512"),
        ("", &["--grammar-backend", "xgrammar", "--grammar-canonical", "on"], xgrammar),
        ("max-bach = 3", &["--config", &flag], "did you mean `max-batch`?"),
        (
            "\nmax-batch = 0",
            &["--config", &flag],
            "line 2: `max-batch`: invalid value: integer `0`, expected a whole number from 1",
        ),
        ("threads = 'two'", &["--config", &flag], "line 1: `threads`: invalid type: string \"two\", expected a whole"),
        ("tier = 'half'", &["--config", &flag], "line 1: `tier`: unknown variant `half`, expected one of `hidden`"),
        ("json = true\njson = = 1", &["--config", &flag], "line 2: "),
        (
            "[sampling]\ntemprature = 1.0",
            &["--config", &flag],
            "line 2, [sampling]: `temprature` is not a known field; did you mean `temperature`?",
        ),
        ("config = 'other.toml'", &["--config", &flag], "`config` is not a setting"),
    ] {
        fs::write(&config, text).unwrap();
        let arguments: Vec<&str> = arguments.to_vec();
        let recorded = if arguments[0] == "--out" {
            let [model, requests] = ["model.gguf", "requests.jsonl"].map(|name| bench.path(name).display().to_string());
            stepscope(&[&["record", "--model", &model, "--requests", &requests], &arguments[..]].concat())
        } else {
            bench.record(&arguments).run
        };
        assert_eq!(recorded.status, 2, "{text} {arguments:?}: {}", recorded.stderr);
        assert!(recorded.stderr.contains(says), "{text} {arguments:?}: {}", recorded.stderr);
    }
    let empty = Bench::new(&SyntheticModel::lfm2(3), "").record(&[]);
    assert_eq!(empty.run.status, 2);
    assert!(empty.run.stderr.contains("holds no request"), "{}", empty.run.stderr);
    let missing = stepscope(&["record", "--model", "m.gguf", "--out", "c.mcap"]);
    assert_eq!((missing.status, missing.stderr.contains("--requests is missing")), (2, true), "{}", missing.stderr);
}

#[test]
fn every_tier_records_the_same_run_and_replays() {
    let bench = Bench::new(&SyntheticModel::lfm2(4).with_format(WeightFormat::Q8_0), &varied_requests());
    let mut outputs = Vec::new();
    for tier in ["hidden", "full", "topk", "off"] {
        let recorded = bench.record(&["--tier", tier, "--max-batch", "3", "--prefill-chunk", "50"]);
        assert_eq!(recorded.run.status, 0, "{}", recorded.run.stderr);
        let (capture, model) = (recorded.capture.display().to_string(), bench.path("model.gguf").display().to_string());
        let replay = stepscope(&["replay", &capture, "--model", &model, "--json"]);
        assert!([0, 3].contains(&replay.status), "{tier}: {}{}", replay.stdout, replay.stderr);
        if tier == "hidden" || tier == "full" {
            assert_eq!(replay.status, 0, "{tier}: {}", replay.stdout);
        }
        outputs.push(recorded.outputs);
    }
    assert!(outputs.iter().all(|other| *other == outputs[0]));
}
