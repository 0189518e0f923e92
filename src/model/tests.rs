//! Models that are refused, and why.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::*;
use crate::arith::WeightFormat;
use crate::model::gguf::{Array, GgufFile, GgufWriter, Value};
use crate::model::synthetic::SyntheticModel;

type Pairs = Vec<(String, Value)>;

/// A tensor before it is written.
struct Tensor {
    name: String,
    format: WeightFormat,
    dimensions: Vec<usize>,
    data: Vec<u8>,
}

/// The error of loading a GGUF file after `change`.
fn gguf_error(model: &SyntheticModel, change: impl FnOnce(&mut Pairs, &mut Vec<Tensor>)) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    model.write_gguf(&path).expect("written");
    let file = GgufFile::open(&path).expect("a valid file");
    let mut pairs =
        file.contents.metadata.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect::<Pairs>();
    let mut tensors = file
        .contents
        .tensors
        .iter()
        .map(|tensor| Tensor {
            name: tensor.name.clone(),
            format: tensor.format,
            dimensions: tensor.dimensions.clone(),
            data: file.file.bytes()[tensor.range.clone()].to_vec(),
        })
        .collect::<Vec<_>>();
    change(&mut pairs, &mut tensors);
    let mut writer = GgufWriter::default();
    for (key, value) in pairs {
        writer.metadata(&key, value);
    }
    for Tensor { name, format, dimensions, data } in tensors {
        writer.tensor(&name, format, &dimensions, data);
    }
    let changed = folder.path().join("changed.gguf");
    writer.write(std::fs::File::create(&changed).expect("created")).expect("written");
    without_path(Model::load(&changed), folder.path())
}

fn without_path(result: Result<Model, ModelError>, folder: &Path) -> String {
    let error = result.map(|model| model.config).expect_err("a model that should have been refused");
    let text = error.to_string();
    let relative = text.strip_prefix(&*folder.to_string_lossy()).expect("the error begins with the path");
    relative.trim_start_matches('/').to_owned()
}

fn set(key: &'static str, value: Value) -> impl FnOnce(&mut Pairs, &mut Vec<Tensor>) {
    move |pairs, _| {
        pairs.retain(|(other, _)| other != key);
        pairs.push((key.to_owned(), value));
    }
}

fn remove(key: &'static str) -> impl FnOnce(&mut Pairs, &mut Vec<Tensor>) {
    move |pairs, _| pairs.retain(|(other, _)| other != key)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn a_gguf_file_that_asks_for_something_else_is_refused() {
    let llama = SyntheticModel::llama(1);
    let cases: [(&'static str, Option<Value>, &str); 18] = [
        ("general.architecture", None, "general.architecture: expected the name of an architecture, found no such key"),
        ("general.architecture", Some(text("qwen3")), "architecture qwen3 is not supported; supported: llama, lfm2"),
        ("llama.block_count", None, "llama.block_count: expected a size, found no such key"),
        ("llama.block_count", Some(Value::Unsigned(1 << 40)), "layers: expected at most 65536, found 1099511627776"),
        ("llama.embedding_length", Some(Value::Unsigned(0)), "llama.embedding_length: expected 1 or more, found 0"),
        ("llama.attention.head_count_kv", Some(Value::Unsigned(3)), "key-value heads: expected a divisor of the 4"),
        (
            "llama.attention.value_length",
            Some(Value::Unsigned(8)),
            "llama.attention.value_length: expected the key length (16), found 8",
        ),
        (
            "llama.rope.dimension_count",
            Some(Value::Unsigned(8)),
            "llama.rope.dimension_count: expected the head size (16), found 8",
        ),
        ("llama.rope.scaling.type", Some(text("yarn")), "rope scaling yarn with factor None is not supported"),
        (
            "llama.rope.scaling.factor",
            Some(Value::Float(4.0)),
            "rope scaling linear with factor Some(4.0) is not supported",
        ),
        (
            "llama.rope.freq_base",
            Some(Value::Float(f64::NAN)),
            "rope theta: expected a finite number of at least 1, found NaN",
        ),
        (
            "llama.expert_count",
            Some(Value::Unsigned(8)),
            "llama.expert_count: expected only keys that this build knows",
        ),
        ("llama.vocab_size", Some(Value::Unsigned(5)), "llama.vocab_size: expected the rows of token_embd.weight"),
        ("split.count", Some(Value::Unsigned(2)), "split.count: expected a model in one file, found one of 2 parts"),
        (
            "tokenizer.ggml.model",
            None,
            "tokenizer.ggml.model: expected a tokenizer (this file has none), found no such key",
        ),
        ("tokenizer.ggml.model", Some(text("llama")), "tokenizer model \"llama\" is not supported; supported: gpt2"),
        ("tokenizer.ggml.pre", Some(text("tekken")), "pre-tokenizer (tokenizer.ggml.pre) \"tekken\" is not supported"),
        ("tokenizer.ggml.pre", None, "tokenizer.ggml.pre: expected a pre-tokenizer, found no such key"),
    ];
    for (key, value, expected) in cases {
        let error = match value {
            Some(value) => gguf_error(&llama, set(key, value)),
            None => gguf_error(&llama, remove(key)),
        };
        let expected = format!("changed.gguf: {expected}");
        assert!(error.starts_with(&expected), "expected {expected:?}, found {error:?}");
    }
}

#[test]
fn a_broken_tokenizer_in_a_gguf_file_is_refused() {
    let llama = SyntheticModel::llama(1);
    let texts = |texts: &[&str]| Value::Array(Array::Text(texts.iter().map(|text| (*text).to_owned()).collect()));
    let cases: [(&'static str, Value, &str); 6] = [
        (
            "tokenizer.ggml.token_type",
            Value::Array(Array::Signed(vec![1])),
            "tokenizer.ggml.token_type: expected one per token",
        ),
        (
            "tokenizer.ggml.merges",
            texts(&["ab"]),
            "tokenizer.ggml.merges: expected two tokens with a space between, found \"ab\" (merge 0)",
        ),
        (
            "tokenizer.ggml.merges",
            texts(&["q zz"]),
            "tokenizer.ggml.merges: expected two tokens that give a token, found \"zz\"",
        ),
        ("tokenizer.ggml.eos_token_id", Value::Unsigned(9999), "tokenizer: end tokens: expected ids below"),
        ("tokenizer.chat_template", text("\n{% if"), "chat template, line 2: syntax error"),
        (
            "tokenizer.ggml.add_bos_token",
            text("yes"),
            "tokenizer.ggml.add_bos_token: expected true or false, found the string \"yes\"",
        ),
    ];
    for (key, value, expected) in cases {
        let error = gguf_error(&llama, set(key, value));
        let expected = format!("changed.gguf: {expected}");
        assert!(error.starts_with(&expected), "expected {expected:?}, found {error:?}");
    }
    let twice = gguf_error(&llama, |pairs, _| {
        for (key, value) in pairs {
            if let (true, Value::Array(Array::Text(tokens))) = (key == "tokenizer.ggml.tokens", value) {
                tokens[7] = tokens[6].clone();
            }
        }
    });
    assert!(twice.contains("tokenizer.ggml.tokens: expected each token once"), "{twice}");
    let more_tokens_than_rows = gguf_error(&llama, |pairs, _| {
        for (key, value) in pairs {
            match value {
                Value::Array(Array::Text(tokens)) if key == "tokenizer.ggml.tokens" => tokens.push("more".to_owned()),
                Value::Array(Array::Signed(kinds)) if key == "tokenizer.ggml.token_type" => kinds.push(1),
                _ => {}
            }
        }
    });
    assert!(more_tokens_than_rows.contains("token \"more\": expected an id below the vocabulary size"));
}

#[test]
fn a_gguf_file_with_other_tensors_is_refused() {
    let llama = SyntheticModel::llama(1);
    let missing = gguf_error(&llama, |_, tensors| tensors.retain(|tensor| tensor.name != "blk.1.ffn_up.weight"));
    assert_eq!(missing, "changed.gguf: tensor blk.1.ffn_up.weight: expected shape [128, 64], found no such tensor");

    let bias = gguf_error(&llama, |_, tensors| {
        let (name, data) = ("blk.0.attn_q.bias".to_owned(), vec![0; 256]);
        tensors.push(Tensor { name, format: WeightFormat::F32, dimensions: vec![64], data });
    });
    let expected = "changed.gguf: tensor blk.0.attn_q.bias: expected no tensor of that name in this architecture, \
                    found a bias, which this build does not compute with (shape [64]; 0 more unexpected tensors)";
    assert_eq!(bias, expected);

    let shape = gguf_error(&llama, |_, tensors| {
        for tensor in tensors.iter_mut().filter(|tensor| tensor.name == "blk.2.attn_k.weight") {
            tensor.dimensions = vec![32, 64];
        }
    });
    assert_eq!(shape, "changed.gguf: tensor blk.2.attn_k.weight: expected shape [32, 64], found [64, 32]");

    let quantized_norm = gguf_error(&llama, |_, tensors| {
        for tensor in tensors.iter_mut().filter(|tensor| tensor.name == "output_norm.weight") {
            (tensor.format, tensor.data) = (WeightFormat::Q8_0, vec![0; 68]);
        }
    });
    assert!(quantized_norm.ends_with("output_norm.weight: expected F32, F16 or BF16 elements, found Q8_0"));

    let lfm2 = SyntheticModel::lfm2(1);
    let counts = |counts: &[i64]| set("lfm2.attention.head_count_kv", Value::Array(Array::Signed(counts.to_vec())));
    for (per_layer, expected) in [
        (&[0, 2, 0][..], "lfm2.attention.head_count_kv: expected 4 numbers, found 3"),
        (&[0, 0, 0, 0], "lfm2.attention.head_count_kv: expected an attention layer, found no such key"),
        (&[0, 2, 0, 1], "lfm2.attention.head_count_kv: expected the same number in every attention layer (2), found 1"),
        (&[0, -2, 0, 2], "lfm2.attention.head_count_kv: expected an array of sizes"),
        (&[2, 2, 0, 2], "tensor blk.0.attn_q_norm.weight: expected shape [16], found no such tensor"),
    ] {
        let error = gguf_error(&lfm2, counts(per_layer));
        assert!(error.starts_with(&format!("changed.gguf: {expected}")), "expected {expected:?}, found {error:?}");
    }
}

/// The error of loading a folder after `change` was applied to one of its files; removed if that gives `None`.
fn folder_error(model: &SyntheticModel, name: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    model.write_hugging_face(folder.path()).expect("written");
    let path = folder.path().join(name);
    match change(std::fs::read(&path).unwrap_or_default()) {
        Some(bytes) => std::fs::write(&path, bytes).expect("written"),
        None => std::fs::remove_file(&path).expect("removed"),
    }
    without_path(Model::load(folder.path()), folder.path())
}

fn with_field(name: &'static str, value: Json) -> impl FnOnce(Vec<u8>) -> Option<Vec<u8>> {
    move |bytes| {
        let mut object = serde_json::from_slice::<Json>(&bytes).expect("valid JSON");
        object[name] = value;
        Some(object.to_string().into_bytes())
    }
}

#[test]
fn a_folder_that_asks_for_something_else_is_refused() {
    let (llama, lfm2) = (SyntheticModel::llama(1), SyntheticModel::lfm2(1));
    let cases = [
        (&llama, "model_type", json!("mamba"), "architecture mamba is not supported"),
        (&llama, "hidden_size", Json::Null, "hidden_size: expected a value, found no such field"),
        (&llama, "hidden_size", json!("64"), "hidden_size: expected a size, found \"64\""),
        (&llama, "num_hidden_layers", json!(1_u64 << 40), "num_hidden_layers: expected at most 65536"),
        (&llama, "head_dim", json!(1_u64 << 40), "head_dim: expected at most 65536"),
        (&llama, "attention_bias", json!(true), "attention_bias: expected false"),
        (&llama, "hidden_act", json!("gelu"), "hidden_act: expected silu, found gelu"),
        (&llama, "quantization_config", json!({}), "quantization_config: expected none"),
        (
            &llama,
            "rope_scaling",
            json!({"rope_type": "yarn"}),
            "rope scaling \"yarn\" is not supported; supported: default, llama3",
        ),
        (&llama, "rope_scaling", json!({"type": "llama3"}), "factor: expected a value, found no such field"),
        (
            &lfm2,
            "layer_types",
            json!(["conv", "mamba", "conv", "conv"]),
            "layer_types: expected full_attention or conv, found \"mamba\"",
        ),
        (&lfm2, "conv_bias", json!(true), "conv_bias: expected false"),
    ];
    for (model, name, value, expected) in cases {
        let error = folder_error(model, "config.json", with_field(name, value));
        let expected = format!("config.json: {expected}");
        assert!(error.starts_with(&expected), "expected {expected:?}, found {error:?}");
    }
    let separate = folder_error(&llama, "config.json", with_field("tie_word_embeddings", json!(false)));
    assert!(separate.contains("tensor lm_head.weight: expected shape"), "{separate}");
}

#[test]
fn a_folder_with_missing_or_broken_files_is_refused() {
    let llama = SyntheticModel::llama(1);
    for (name, expected) in [
        ("config.json", "config.json: entity not found"),
        ("model.safetensors", "model.safetensors: No such file"),
        ("tokenizer.json", "tokenizer.json: tokenizer: expected a tokenizer.json in the folder, found none"),
    ] {
        let error = folder_error(&llama, name, |_| None);
        assert!(error.starts_with(expected), "expected {expected:?}, found {error:?}");
    }
    for (name, content, expected) in [
        ("config.json", "{\"model_type\": 1,\n]", "config.json: invalid JSON: key must be a string at line 2 column 1"),
        ("model.safetensors", "short", "model.safetensors: byte 0: safetensors header: expected a valid header"),
        ("tokenizer.json", "{}", "tokenizer.json: tokenizer: "),
        (
            "tokenizer_config.json",
            "{\"eos_token\": 3}",
            "tokenizer_config.json: eos_token: expected a string or an object with content, found 3",
        ),
        (
            "tokenizer_config.json",
            "{\"eos_token\": \"none\"}",
            "tokenizer.json: tokenizer: eos_token of tokenizer_config.json: expected a known token",
        ),
        ("chat_template.jinja", "{{ ", "chat_template.jinja: chat template, line 1: syntax error"),
        ("generation_config.json", "[]", "generation_config.json: invalid JSON"),
        (
            "generation_config.json",
            "{\"eos_token_id\": 100000}",
            "tokenizer.json: tokenizer: end tokens: expected ids below",
        ),
        (
            "model.safetensors.index.json",
            "{\"weight_map\": {\"a\": \"../x\"}}",
            "model.safetensors.index.json: weight_map: expected names of files in this folder, found \"../x\"",
        ),
        (
            "model.safetensors.index.json",
            "{\"weight_map\": {\"a\": \"model.safetensors\"}}",
            "model.safetensors.index.json: tensor a: expected it in one of the files",
        ),
    ] {
        let error = folder_error(&llama, name, |_| Some(content.as_bytes().to_vec()));
        assert!(error.starts_with(expected), "expected {expected:?}, found {error:?}");
    }
}

#[test]
fn a_model_in_shards_is_the_same_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    SyntheticModel::lfm2(5).write_hugging_face(folder.path()).expect("written");
    let whole = Model::load(folder.path()).expect("a valid folder");

    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).expect("read");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("valid");
    let mut weight_map = serde_json::Map::new();
    let mut shards = [Vec::new(), Vec::new()];
    for (index, (name, view)) in tensors.iter().enumerate() {
        let shard = index % 2;
        weight_map.insert(name.to_owned(), json!(format!("model-0000{shard}.safetensors")));
        shards[shard].push((name.to_owned(), view));
    }
    for (index, shard) in shards.into_iter().enumerate() {
        let path = folder.path().join(format!("model-0000{index}.safetensors"));
        safetensors::serialize_to_file(shard, None, &path).expect("written");
    }
    std::fs::remove_file(&path).expect("removed");
    let index = json!({"weight_map": weight_map}).to_string();
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).expect("written");

    let sharded = Model::load(folder.path()).expect("a valid folder");
    assert_eq!(sharded.config, whole.config);
    assert_eq!(sharded.weights.head.bytes(), whole.weights.head.bytes());
    assert_eq!(sharded.weights.output_norm, whole.weights.output_norm);
    assert_ne!(sharded.identity.file_hashes(), whole.identity.file_hashes());
    assert_eq!(sharded.identity.file_hashes()[0].algorithm, "sha256-list");
}

#[test]
fn lfm2_feed_forward_sizes_are_adjusted_as_transformers_does() {
    // LFM2-1.2B: block_ff_dim 12288, block_ffn_dim_multiplier 1.0, block_multiple_of 256 give 8192.
    for (nominal, multiplier, multiple, expected) in [(192, 1.0, 128, 128), (193, 1.0, 64, 128), (96, 2.0, 1, 128)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        SyntheticModel::lfm2(5).write_hugging_face(folder.path()).expect("written");
        let path = folder.path().join("config.json");
        let mut config = serde_json::from_slice::<Json>(&std::fs::read(&path).expect("read")).expect("valid JSON");
        config["block_auto_adjust_ff_dim"] = json!(true);
        config["block_ff_dim"] = json!(nominal);
        config["block_ffn_dim_multiplier"] = json!(multiplier);
        config["block_multiple_of"] = json!(multiple);
        std::fs::write(&path, config.to_string()).expect("written");
        assert_eq!(Model::load(folder.path()).expect("a valid folder").config.feed_forward_size, expected);
    }
}
