//! Loading the real model, and what its tokenizer and template make of texts.

use std::path::PathBuf;

use serde_json::{Value, json};
use stepscope::model::{Architecture, ChatPrompt, LayerKind, Model};
use stepscope::types::TokenId;

/// SmolLM2-135M-Instruct in Q4_1, which `make test` fetches.
fn model() -> Model {
    let default = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        cache.unwrap_or_default().join("stepscope/SmolLM2-135M-Instruct.Q4_1.gguf")
    };
    let path = std::env::var_os("STEPSCOPE_MODEL").map_or_else(default, PathBuf::from);
    assert!(path.exists(), "{} is missing: run `make model`, or set STEPSCOPE_MODEL to the file", path.display());
    Model::load(&path).expect("a valid model")
}

#[test]
fn the_shape_is_that_of_smollm2() {
    let config = model().config;
    assert_eq!(config.architecture, Architecture::Llama);
    assert_eq!(config.layers, [LayerKind::Attention; 30]);
    assert_eq!((config.vocabulary_size, config.hidden_size, config.feed_forward_size), (49_152, 576, 1536));
    assert_eq!((config.heads, config.kv_heads, config.head_size), (9, 3, 64));
    assert_eq!((config.context_length, config.convolution_width), (8192, None));
    assert_eq!((config.norm_epsilon, config.rope.theta), (1e-5, 100_000.0));
    assert_eq!(config.rope.frequency_factors, None);
}

#[test]
fn the_file_is_identified_by_what_sha256sum_and_git_print() {
    let identity = model().identity;
    assert_eq!(identity.name, "Smollm2 135M 8k Lc100K Mix1 Ep2");
    assert_eq!(identity.file_bytes, 98_362_432);
    let hashes = identity.file_hashes().iter().map(|hash| (hash.algorithm, hash.hex.as_str())).collect::<Vec<_>>();
    assert_eq!(
        hashes,
        [
            ("sha256", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
            ("git-blob-sha1", "49f8d2e965572d8786696fdc0f921dc499867781")
        ]
    );
}

#[test]
fn texts_become_the_ids_that_the_python_package_gives() {
    let tokenizer = model().tokenizer;
    let recorded = include_str!("fixtures/smollm2_tokens.json");
    let recorded = serde_json::from_str::<Value>(recorded).expect("valid JSON");
    let texts = recorded["texts"].as_array().expect("an array");
    assert!(texts.len() >= 40);
    for pair in texts {
        let text = pair[0].as_str().expect("a text");
        let ids = tokenizer.encode(text, true).expect("encoded");
        let found = ids.iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(json!(found), pair[1], "{text:?}");
        let bytes = ids.iter().flat_map(|id| tokenizer.token_bytes(*id)).copied().collect::<Vec<_>>();
        assert_eq!(bytes, text.as_bytes(), "{text:?}");
    }
    assert_eq!(tokenizer.end_tokens(), [TokenId(2)]);
    assert_eq!(tokenizer.vocabulary_size(), 49_152);
}

#[test]
fn the_template_adds_the_system_message() {
    let model = model();
    let template = model.chat_template.expect("a chat template");
    let messages = [json!({"role": "user", "content": "Hi"})];
    let prompt = ChatPrompt { messages: &messages, tools: None, add_generation_prompt: true, unix_seconds: 0 };
    let text = template.render(prompt).expect("rendered");
    let expected = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
                    <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(text, expected);
    let ids = model.tokenizer.encode(&text, false).expect("encoded");
    let specials = ids.iter().filter(|id| model.tokenizer.is_special(**id)).map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(specials, [1, 2, 1, 2, 1]);
}
