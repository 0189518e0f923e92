use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::model::Model;
use crate::model::synthetic::{BEGIN_OF_SEQUENCE, END_OF_SEQUENCE, SyntheticModel, VOCABULARY_SIZE};

fn model(synthetic: &SyntheticModel) -> Model {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    synthetic.write_gguf(&path).expect("written");
    Model::load(&path).expect("a valid model")
}

static TOKENIZER: LazyLock<std::sync::Arc<Tokenizer>> = LazyLock::new(|| model(&SyntheticModel::llama(1)).tokenizer);

#[test]
fn tokens_stand_for_their_bytes() {
    let tokenizer = model(&SyntheticModel::llama(1)).tokenizer;
    assert_eq!(tokenizer.vocabulary_size(), VOCABULARY_SIZE);
    let ids = tokenizer.encode("<|im_start|> the\u{a0}12", false).expect("encoded");
    let bytes = ids.iter().map(|id| tokenizer.token_bytes(*id)).collect::<Vec<_>>();
    assert_eq!(bytes, [&b"<|im_start|>"[..], b" the", b"\xc2", b"\xa0", b"1", b"2"]);
    assert_eq!(ids.first(), Some(&BEGIN_OF_SEQUENCE));
    assert!(tokenizer.is_special(BEGIN_OF_SEQUENCE));

    let call = tokenizer.token_id("<tool_call>").expect("a token");
    assert_eq!(tokenizer.encode("<tool_call>", false).expect("encoded"), [call]);
    assert!(!tokenizer.is_special(call), "user-defined tokens are text");
    assert_eq!(tokenizer.decode(&[BEGIN_OF_SEQUENCE, call]), "<tool_call>");

    let beyond = TokenId(VOCABULARY_SIZE as u32);
    assert_eq!(tokenizer.token_bytes(beyond), b"");
    assert!(!tokenizer.is_special(beyond));
    assert_eq!(tokenizer.end_tokens(), [END_OF_SEQUENCE]);
}

#[test]
fn a_token_is_put_before_texts_where_the_model_wants_one() {
    let llama = model(&SyntheticModel::llama(1)).tokenizer;
    let lfm2 = model(&SyntheticModel::lfm2(1)).tokenizer;
    for text in ["", "x"] {
        let plain = llama.encode(text, false).expect("encoded");
        assert_eq!(llama.encode(text, true).expect("encoded"), plain);
        assert_eq!(lfm2.encode(text, false).expect("encoded"), plain);
        let with_begin = lfm2.encode(text, true).expect("encoded");
        assert_eq!(with_begin, [&[BEGIN_OF_SEQUENCE][..], &plain].concat());
    }
    assert_ne!(llama.hash(), lfm2.hash());
}

#[test]
fn the_component_version_is_that_of_the_lock_file() {
    let (name, version) = Tokenizer::COMPONENT;
    let lock = include_str!("../../../Cargo.lock");
    assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")));
}

/// What the library would panic on, or turn into other tokens than the model was trained with.
#[test]
fn a_tokenizer_json_that_the_library_cannot_take_is_an_error() {
    let json = TOKENIZER.to_json().expect("a tokenizer.json");
    let good: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
    assert!(from_json(json.as_bytes(), VOCABULARY_SIZE).is_ok());
    for (field, value, says) in [
        ("continuing_subword_prefix", serde_json::json!("##"), "model.continuing_subword_prefix \"##\""),
        ("end_of_word_suffix", serde_json::json!("</w>"), "model.end_of_word_suffix"),
        ("type", serde_json::json!("Unigram"), "model type \"Unigram\""),
        ("merges", serde_json::json!([["the", "the"]]), "model.merges: expected two tokens that give a token"),
        ("merges", serde_json::json!(["the the"]), "model.merges: expected two tokens that give a token"),
    ] {
        let mut bad = good.clone();
        bad["model"][field] = value;
        let error = from_json(bad.to_string().as_bytes(), VOCABULARY_SIZE).expect_err(field).to_string();
        assert!(error.contains(says), "{error}");
    }
}

proptest! {
    #[test]
    fn every_text_survives(text: String) {
        let tokenizer = &*TOKENIZER;
        let ids = tokenizer.encode(&text, false).expect("encoded");
        let bytes = ids.iter().flat_map(|id| tokenizer.token_bytes(*id)).copied().collect::<Vec<_>>();
        prop_assert_eq!(&bytes, text.as_bytes());
        prop_assert_eq!(&tokenizer.decode(&ids), &text);
    }

    /// The library's decoder is the reference for ours, special tokens and broken characters included.
    #[test]
    fn decoding_and_streaming_agree_with_the_library(
        ids in prop::collection::vec(0..VOCABULARY_SIZE as u32, 0..40)
    ) {
        let tokenizer = &*TOKENIZER;
        let tokens = ids.iter().copied().map(TokenId).collect::<Vec<_>>();
        let decoded = tokenizer.decode(&tokens);
        prop_assert_eq!(&decoded, &tokenizer.library.decode(&ids, true).expect("decoded"));
        let mut stream = TextStream::new();
        let mut streamed = tokens.iter().map(|token| stream.push(tokenizer, *token)).collect::<String>();
        streamed.push_str(&stream.finish());
        prop_assert_eq!(streamed, decoded);
    }
}
