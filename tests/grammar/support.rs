//! Tokenizers, random numbers, and random walks through a grammar.

use std::path::PathBuf;
use std::sync::LazyLock;

use stepscope::grammar::{Constraint, Grammar, GrammarFactory, GrammarSettings, Matcher, Whitespace};
use stepscope::model::synthetic::SyntheticModel;
use stepscope::model::{Model, Tokenizer};
use stepscope::types::TokenId;

/// A tokenizer with what compiles grammars for it.
pub struct Vocabulary {
    pub tokenizer: std::sync::Arc<Tokenizer>,
    pub size: usize,
    pub factory: GrammarFactory,
}

impl Vocabulary {
    /// Of the tokenizer of the synthetic models.
    pub fn small(settings: GrammarSettings) -> Self {
        Self::new(synthetic_model(), settings)
    }

    /// Of SmolLM2's.
    pub fn real(settings: GrammarSettings) -> Self {
        Self::new(real_model(), settings)
    }

    fn new(model: Model, settings: GrammarSettings) -> Self {
        let (tokenizer, size) = (model.tokenizer, model.config.vocabulary_size);
        let factory = GrammarFactory::new(&tokenizer, size, settings).expect("a usable tokenizer");
        Self { tokenizer, size, factory }
    }

    pub fn compile(&self, constraint: &Constraint) -> Grammar {
        self.factory.compile(constraint).unwrap_or_else(|error| panic!("{constraint:?}: {error}"))
    }

    pub fn text(&self, tokens: &[TokenId]) -> String {
        let bytes = tokens.iter().flat_map(|token| self.tokenizer.token_bytes(*token)).copied().collect();
        String::from_utf8(bytes).expect("grammars allow UTF-8 only")
    }

    pub fn is_end(&self, token: TokenId) -> bool {
        self.tokenizer.end_tokens().contains(&token)
    }
}

fn synthetic_model() -> Model {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    SyntheticModel::llama(1).write_gguf(&path).unwrap();
    Model::load(&path).unwrap()
}

/// The tokenizer of the synthetic models: bytes and a few merges.
pub static SMALL: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::small(GrammarSettings::default()));

/// The same, with any tokenization of a forced text, and no white space in JSON.
pub static PLAIN: LazyLock<Vocabulary> = LazyLock::new(|| {
    let settings =
        GrammarSettings { canonical_tokens: false, whitespace: Whitespace::None, ..GrammarSettings::default() };
    Vocabulary::small(settings)
});

/// The same, with one space after each comma and colon.
pub static SPACED: LazyLock<Vocabulary> = LazyLock::new(|| {
    let settings =
        GrammarSettings { canonical_tokens: false, whitespace: Whitespace::Single, ..GrammarSettings::default() };
    Vocabulary::small(settings)
});

/// The model that `make model` fetches.
fn real_model() -> Model {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let path = cache.expect("a home folder").join("stepscope/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.exists(), "{} is missing: run `make model`", path.display());
    Model::load(&path).expect("a valid model")
}

/// SmolLM2's tokenizer.
pub static REAL: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::real(GrammarSettings::default()));

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Steps after which a walk takes what closes something where it can, and those after which it gives up.
const HURRY: usize = 60;
const LIMIT: usize = 2_000;

/// Draws allowed tokens until the end token; `None` if the grammar cannot be left within the limit.
pub fn walk(vocabulary: &Vocabulary, matcher: &mut Matcher, random: &mut Random) -> Option<Vec<TokenId>> {
    let mut tokens = Vec::new();
    let mut text = Vec::new();
    for step in 0..LIMIT {
        let token = draw(vocabulary, matcher, random, &text, step >= HURRY);
        matcher.consume(token).unwrap_or_else(|error| panic!("{:?}: {error}", String::from_utf8_lossy(&text)));
        tokens.push(token);
        if vocabulary.is_end(token) {
            assert!(matcher.is_terminated());
            return Some(tokens);
        }
        text.extend_from_slice(vocabulary.tokenizer.token_bytes(token));
    }
    None
}

/// One allowed token: an end token soon, and closing ones first when in a hurry.
fn draw(vocabulary: &Vocabulary, matcher: &mut Matcher, random: &mut Random, text: &[u8], hurry: bool) -> TokenId {
    let row = matcher.mask().unwrap_or_else(|error| panic!("{:?}: {error}", String::from_utf8_lossy(text)));
    if matcher.accepts_end().unwrap() && (hurry || random.one_in(3)) {
        let ends = vocabulary.tokenizer.end_tokens();
        return ends[random.below(ends.len())];
    }
    let bytes = |token: &TokenId| vocabulary.tokenizer.token_bytes(*token);
    let allowed = row.allowed().filter(|token| !vocabulary.is_end(*token)).collect::<Vec<_>>();
    if allowed.is_empty() {
        return vocabulary.tokenizer.end_tokens()[0];
    }
    if hurry && !random.one_in(4) {
        let closing = |token: &&TokenId| matches!(bytes(token), [byte] if b")}]\",:.@<01".contains(byte));
        let closing = allowed.iter().filter(closing).collect::<Vec<_>>();
        if !closing.is_empty() {
            return *closing[random.below(closing.len())];
        }
    }
    // White space gets nowhere, and parsers round long numbers and refuse great exponents.
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let dull = |token: &TokenId| {
        let bytes = bytes(token);
        let first = bytes.first().copied().unwrap_or_default();
        bytes.iter().all(u8::is_ascii_whitespace)
            || digits > 0 && b"eE".contains(&first)
            || digits > 8 && first.is_ascii_digit()
    };
    for _ in 0..8 {
        let token = allowed[random.below(allowed.len())];
        if !dull(&token) || digits == 0 && random.one_in(50) {
            return token;
        }
    }
    *allowed.iter().find(|token| !dull(token)).unwrap_or(&allowed[0])
}
