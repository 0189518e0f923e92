//! The tokenizer of the synthetic models: bytes, a few merges, and the special tokens of ChatML.

use crate::model::gguf::{Array, Value};
use crate::model::tokenizer::character_of;
use crate::types::TokenId;

/// `<|im_start|>`.
pub const BEGIN_OF_SEQUENCE: TokenId = TokenId(1);
/// `<|im_end|>`: the end token.
pub const END_OF_SEQUENCE: TokenId = TokenId(2);
/// Tokens of every synthetic model.
pub const VOCABULARY_SIZE: usize = SPECIAL.len() + USER_DEFINED.len() + 256 + MERGES.len();

/// ChatML.
pub const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + \
     message['content'] + '<|im_end|>' + '\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const USER_DEFINED: [&str; 2] = ["<tool_call>", "</tool_call>"];
const MERGES: [(&str, &str); 38] = [
    ("Ġ", "t"),
    ("h", "e"),
    ("Ġ", "a"),
    ("i", "n"),
    ("Ġt", "he"),
    ("e", "r"),
    ("o", "n"),
    ("r", "e"),
    ("Ġ", "s"),
    ("a", "t"),
    ("o", "r"),
    ("e", "n"),
    ("Ġ", "w"),
    ("Ġ", "c"),
    ("i", "s"),
    ("i", "t"),
    ("e", "s"),
    ("Ġ", "f"),
    ("Ġ", "m"),
    ("Ġ", "p"),
    ("Ġ", "o"),
    ("o", "u"),
    ("in", "g"),
    ("a", "n"),
    ("Ġ", "b"),
    ("Ġ", "d"),
    ("a", "l"),
    ("u", "s"),
    ("er", "s"),
    ("l", "l"),
    ("s", "ys"),
    ("y", "s"),
    ("ou", "r"),
    ("Ġa", "n"),
    ("Ġan", "d"),
    ("Ã", "©"),
    ("Ċ", "Ċ"),
    ("Ġ", "Ġ"),
];

/// The metadata that describe the tokenizer.
pub(super) fn metadata(pre_tokenizer: &str, chat_template: Option<&str>) -> Vec<(&'static str, Value)> {
    let bytes = (0..=u8::MAX).map(|byte| character_of(byte).to_string());
    let merged = MERGES.iter().map(|(left, right)| format!("{left}{right}"));
    let named = SPECIAL.iter().chain(&USER_DEFINED).map(|text| (*text).to_owned());
    let tokens = named.chain(bytes).chain(merged).collect::<Vec<_>>();
    let kind = |index: usize| match index {
        index if index < SPECIAL.len() => 3,
        index if index < SPECIAL.len() + USER_DEFINED.len() => 4,
        _ => 1,
    };
    let kinds = (0..tokens.len()).map(kind).collect();
    let merges = MERGES.iter().map(|(left, right)| format!("{left} {right}")).collect();
    let text = |text: &str| Value::Text(text.to_owned());
    let mut metadata = vec![
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text(pre_tokenizer)),
        ("tokenizer.ggml.tokens", Value::Array(Array::Text(tokens))),
        ("tokenizer.ggml.token_type", Value::Array(Array::Signed(kinds))),
        ("tokenizer.ggml.merges", Value::Array(Array::Text(merges))),
        ("tokenizer.ggml.bos_token_id", Value::Unsigned(BEGIN_OF_SEQUENCE.0.into())),
        ("tokenizer.ggml.eos_token_id", Value::Unsigned(END_OF_SEQUENCE.0.into())),
    ];
    metadata.extend(chat_template.map(|template| ("tokenizer.chat_template", text(template))));
    metadata
}

/// Texts of the tokens that begin and end a sequence.
pub(super) fn special_token_texts() -> (&'static str, &'static str) {
    (SPECIAL[1], SPECIAL[2])
}
