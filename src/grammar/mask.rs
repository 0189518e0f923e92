//! Mask rows: which tokens may come at one position.

use crate::types::TokenId;

/// One bit per token, lowest first; 1 = allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MaskRow {
    /// Little-endian bits; those at and beyond `vocabulary_size` are 0.
    words: Vec<u32>,
    vocabulary_size: usize,
}

const WORD_BITS: usize = u32::BITS as usize;

impl MaskRow {
    /// The row that allows every token.
    pub fn all(vocabulary_size: usize) -> Self {
        Self::from_words(vec![u32::MAX; vocabulary_size.div_ceil(WORD_BITS)], vocabulary_size)
    }

    /// The row that allows these tokens; ids beyond the vocabulary are left out.
    pub fn of(tokens: &[TokenId], vocabulary_size: usize) -> Self {
        let mut words = vec![0; vocabulary_size.div_ceil(WORD_BITS)];
        for token in tokens.iter().filter(|token| token.index() < vocabulary_size) {
            words[token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
        }
        Self { words, vocabulary_size }
    }

    /// Takes the first `vocabulary_size` bits of `words`; what is missing is 0.
    pub(super) fn from_words(mut words: Vec<u32>, vocabulary_size: usize) -> Self {
        words.resize(vocabulary_size.div_ceil(WORD_BITS), 0);
        if let (Some(last), spare @ 1..) = (words.last_mut(), vocabulary_size % WORD_BITS) {
            *last &= (1 << spare) - 1;
        }
        Self { words, vocabulary_size }
    }

    /// Tokens in a row.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    /// Whether the token may come; one beyond the vocabulary may not.
    pub fn allows(&self, token: TokenId) -> bool {
        self.words.get(token.index() / WORD_BITS).is_some_and(|word| word >> (token.index() % WORD_BITS) & 1 == 1)
    }

    /// The bits in words, lowest first; those beyond the vocabulary are 0.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// How many tokens may come.
    pub fn population(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The token that has to come, if exactly one may.
    pub fn only(&self) -> Option<TokenId> {
        let mut allowed = self.allowed();
        allowed.next().filter(|_| allowed.next().is_none())
    }

    /// The tokens that may come, ascending.
    pub fn allowed(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.words.iter().zip(0_u32..).flat_map(|(word, index)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(TokenId(index * u32::BITS + bit))
            })
        })
    }

    /// The bits as bytes, lowest first: `ceil(vocabulary_size / 8)` of them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        bytes.truncate(self.vocabulary_size.div_ceil(8));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_the_vocabulary_are_zero() {
        for vocabulary_size in [1, 7, 8, 31, 32, 33, 64, 299] {
            let row = MaskRow::all(vocabulary_size);
            assert_eq!(row.population(), vocabulary_size);
            assert_eq!(row.bytes().len(), vocabulary_size.div_ceil(8));
            let ones: u32 = row.bytes().iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ones as usize, vocabulary_size);
            assert!(row.allows(TokenId(vocabulary_size as u32 - 1)));
            assert!(!row.allows(TokenId(vocabulary_size as u32)));
        }
        assert_eq!(MaskRow::from_words(vec![u32::MAX; 4], 33), MaskRow::all(33));
    }

    #[test]
    fn bits_are_lowest_first() {
        let row = MaskRow::of(&[TokenId(0), TokenId(9), TokenId(40), TokenId(70)], 64);
        assert_eq!(row.bytes(), [1, 2, 0, 0, 0, 1, 0, 0]);
        assert_eq!(row.allowed().collect::<Vec<_>>(), [TokenId(0), TokenId(9), TokenId(40)]);
        assert_eq!(row.population(), 3);
        assert_eq!(row.only(), None);
    }

    #[test]
    fn a_single_allowed_token_is_forced() {
        assert_eq!(MaskRow::of(&[TokenId(63)], 64).only(), Some(TokenId(63)));
        assert_eq!(MaskRow::of(&[], 64).only(), None);
    }
}
