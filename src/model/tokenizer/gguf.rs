//! A tokenizer from GGUF metadata.

use std::collections::HashSet;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, NormalizerWrapper};

use super::{Tokenizer, check_merges};
use crate::model::error::Problem;
use crate::model::gguf::{Metadata, required};
use crate::types::TokenId;

const MODEL: &str = "tokenizer.ggml.model";
const PRE_TOKENIZER: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

/// Token types of GGUF.
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;

/// How a text is cut into words before the merges, by the name that `llama.cpp` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreTokenizer {
    SmolLm,
    Llama3,
    Qwen2,
    Gpt2,
    /// What `llama.cpp` calls `default`.
    LlamaCppDefault,
}

impl PreTokenizer {
    fn by_name(name: &str) -> Result<Self, Problem> {
        match name {
            "smollm" => Ok(Self::SmolLm),
            "llama-bpe" | "llama3" | "llama-v3" | "lfm2" => Ok(Self::Llama3),
            "qwen2" => Ok(Self::Qwen2),
            "gpt-2" | "gpt2" => Ok(Self::Gpt2),
            "default" => Ok(Self::LlamaCppDefault),
            _ => Err(Problem::Unsupported {
                what: "pre-tokenizer (tokenizer.ggml.pre)",
                found: format!("{name:?}"),
                supported: "smollm, llama-bpe, llama3, llama-v3, lfm2, qwen2, gpt-2, default".to_owned(),
            }),
        }
    }

    /// Whether a word that is a token is taken whole, and whether texts begin with a token, unless the metadata say
    /// otherwise: both are properties of the Llama 3 tokenizer.
    fn is_llama3(self) -> bool {
        self == Self::Llama3
    }

    fn normalizer(self) -> Option<NormalizerWrapper> {
        (self == Self::Qwen2).then_some(NormalizerWrapper::NFC(NFC))
    }

    fn build(self) -> Result<PreTokenizerWrapper, Problem> {
        const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|]+";
        let bytes_of_gpt2_words = || ByteLevel::new(false, true, true).into();
        let bytes = || ByteLevel::new(false, true, false).into();
        let steps: Vec<PreTokenizerWrapper> = match self {
            Self::SmolLm => vec![Digits::new(true).into(), bytes_of_gpt2_words()],
            Self::Llama3 => vec![split(LLAMA3)?, bytes()],
            Self::Qwen2 => vec![split(QWEN2)?, bytes()],
            Self::Gpt2 => vec![bytes_of_gpt2_words()],
            Self::LlamaCppDefault => {
                vec![split(PUNCTUATION)?, split(GPT2_WORDS)?, split(r"\p{N}+")?, split("[0-9][0-9][0-9]")?, bytes()]
            }
        };
        Ok(Sequence::new(steps).into())
    }
}

/// The words of GPT-2, as the library's own byte-level step cuts them.
const GPT2_WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

fn split(pattern: &str) -> Result<PreTokenizerWrapper, Problem> {
    let pattern = SplitPattern::Regex(pattern.to_owned());
    Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .map(Into::into)
        .map_err(|error| Problem::Tokenizer(error.to_string()))
}

/// Builds the tokenizer that the metadata describe.
pub(crate) fn from_gguf(metadata: &Metadata, vocabulary_size: usize) -> Result<Tokenizer, Problem> {
    let model = required(MODEL, "a tokenizer (this file has none)", metadata.text(MODEL)?)?;
    if model != "gpt2" {
        let supported = "gpt2 (byte-level BPE)".to_owned();
        return Err(Problem::Unsupported { what: "tokenizer model", found: format!("{model:?}"), supported });
    }
    let pre_tokenizer =
        PreTokenizer::by_name(required(PRE_TOKENIZER, "a pre-tokenizer", metadata.text(PRE_TOKENIZER)?)?)?;

    let tokens = required(TOKENS, "an array of tokens", metadata.texts(TOKENS)?)?;
    let types = required(TOKEN_TYPES, "an array of token types", metadata.sizes(TOKEN_TYPES)?)?;
    if types.len() != tokens.len() {
        let expected = format!("one per token ({})", tokens.len());
        return Err(Problem::setting(TOKEN_TYPES, expected, types.len().to_string()));
    }
    let merges = required(MERGES, "an array of merges", metadata.texts(MERGES)?)?;

    let mut library = tokenizers::Tokenizer::new(byte_pair_model(tokens, merges, pre_tokenizer)?);
    library.with_normalizer(pre_tokenizer.normalizer()).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    library.with_pre_tokenizer(Some(pre_tokenizer.build()?));
    library.with_decoder(Some(ByteLevel::default()));
    for (kind, special) in [(CONTROL, true), (USER_DEFINED, false)] {
        let of_kind = tokens.iter().zip(&types).filter(|(_, found)| **found == kind);
        let added = of_kind.map(|(text, _)| AddedToken::from(text.clone(), special)).collect::<Vec<_>>();
        library.add_tokens(added).map_err(|error| Problem::Tokenizer(error.to_string()))?;
    }

    let begin = around_token(metadata, "bos", tokens, pre_tokenizer.is_llama3())?;
    let end = around_token(metadata, "eos", tokens, false)?;
    if begin.is_some() || end.is_some() {
        let processor = around_processor(begin, end).map_err(|error| Problem::Tokenizer(error.to_string()))?;
        library.with_post_processor(Some(processor));
    }
    Tokenizer::new(library, vocabulary_size)?.with_end_tokens(end_tokens(metadata)?)
}

fn byte_pair_model(tokens: &[String], merges: &[String], pre_tokenizer: PreTokenizer) -> Result<BPE, Problem> {
    let mut seen = HashSet::new();
    if let Some(twice) = tokens.iter().find(|text| !seen.insert(text.as_str())) {
        return Err(Problem::setting(TOKENS, "each token once", format!("{twice:?} again")));
    }
    let vocabulary = tokens.iter().cloned().zip(0_u32..).collect::<Vocab>();
    let merges = merges
        .iter()
        .enumerate()
        .map(|(index, merge)| {
            let (left, right) = merge.split_once(' ').ok_or_else(|| {
                Problem::setting(MERGES, "two tokens with a space between", format!("{merge:?} (merge {index})"))
            })?;
            Ok((left.to_owned(), right.to_owned()))
        })
        .collect::<Result<Vec<(String, String)>, Problem>>()?;
    check_merges(MERGES, &seen, merges.iter().map(|(left, right)| (left.as_str(), right.as_str())))?;
    BPE::builder()
        .vocab_and_merges(vocabulary, merges)
        .ignore_merges(pre_tokenizer.is_llama3())
        .build()
        .map_err(|error| Problem::Tokenizer(format!("{MERGES}: {error}")))
}

/// The token to put before (`bos`) or behind (`eos`) every text, if any: its role, its id and its text.
fn around_token(
    metadata: &Metadata,
    role: &'static str,
    tokens: &[String],
    by_default: bool,
) -> Result<Option<SpecialToken>, Problem> {
    let wanted = metadata.boolean(&format!("tokenizer.ggml.add_{role}_token"))?.unwrap_or(by_default);
    if !wanted {
        return Ok(None);
    }
    let key = format!("tokenizer.ggml.{role}_token_id");
    let token = required(&key, "the token to add to every text", metadata.token(&key)?)?;
    let text = tokens
        .get(token.index())
        .ok_or_else(|| Problem::setting(&key, format!("an id below {}", tokens.len()), token.to_string()))?;
    SpecialToken::new(role.to_owned(), vec![token.0], vec![text.clone()])
        .map(Some)
        .map_err(|error| Problem::Tokenizer(error.to_string()))
}

/// Puts the tokens around every text, under the names of their roles.
fn around_processor(
    begin: Option<SpecialToken>,
    end: Option<SpecialToken>,
) -> Result<TemplateProcessing, Box<dyn std::error::Error + Send + Sync>> {
    let mut pieces = vec!["$A"];
    if begin.is_some() {
        pieces.insert(0, "bos");
    }
    if end.is_some() {
        pieces.push("eos");
    }
    let special = begin.into_iter().chain(end).collect::<Vec<_>>();
    let mut builder = TemplateProcessing::builder();
    Ok(builder.try_single(pieces)?.special_tokens(special).build()?)
}

/// End of sequence, end of turn, end of message.
fn end_tokens(metadata: &Metadata) -> Result<Vec<TokenId>, Problem> {
    let mut tokens = Vec::new();
    for which in ["eos", "eot", "eom"] {
        tokens.extend(metadata.token(&format!("tokenizer.ggml.{which}_token_id"))?);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use tokenizers::tokenizer::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _};

    use super::*;

    /// Words, in the byte-level alphabet, as `llama.cpp` cuts them under the pre-tokenizer of that name.
    #[test]
    fn texts_are_cut_into_words() {
        let text = "It's 12345 déjà\n\n  vu!?";
        let qwen2 = ["It", "'s", "Ġ", "1", "2", "3", "4", "5", "ĠdÃ©jÃł", "ĊĊ", "Ġ", "Ġvu", "!?"];
        let cases: [(&str, &[&str]); 5] = [
            ("smollm", &["It", "'s", "Ġ", "1", "2", "3", "4", "5", "ĠdÃ©jÃł", "ĊĊĠ", "Ġvu", "!?"]),
            ("llama-bpe", &["It", "'s", "Ġ", "123", "45", "ĠdÃ©jÃł", "ĊĊ", "Ġ", "Ġvu", "!?"]),
            ("qwen2", &qwen2),
            ("gpt-2", &["It", "'s", "Ġ12345", "ĠdÃ©jÃł", "ĊĊĠ", "Ġvu", "!?"]),
            ("default", &["It", "'", "s", "Ġ", "123", "45", "ĠdÃ©jÃł", "ĊĊĠ", "Ġvu", "!?"]),
        ];
        for (name, expected) in cases {
            let pre_tokenizer = PreTokenizer::by_name(name).and_then(PreTokenizer::build).expect("known");
            let mut words = PreTokenizedString::from(text);
            pre_tokenizer.pre_tokenize(&mut words).expect("cut");
            let words = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
            assert_eq!(words.into_iter().map(|(word, _, _)| word).collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let error = PreTokenizer::by_name("tekken").expect_err("not supported").to_string();
        assert!(error.contains("\"tekken\" is not supported; supported: smollm"), "{error}");
    }
}
