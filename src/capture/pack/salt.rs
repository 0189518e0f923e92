//! Salted hashes: what stands in the place of what was taken out. The salt is random, is used for one file, and is kept nowhere.

use super::PackError;

/// A key of 32 random bytes.
pub(super) struct Salt([u8; 32]);

/// Where a token stands: request, choice and absolute position.
pub(super) type TokenPlace = (u64, u32, u32);

/// Rounds of the permutation: each makes one half depend on the other.
const ROUNDS: u32 = 6;

impl Salt {
    /// A fresh one.
    pub(super) fn random() -> Result<Self, PackError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| PackError::NoSalt(error.to_string()))?;
        Ok(Self(key))
    }

    /// 32 bytes that depend on all parts.
    pub(super) fn hash(&self, domain: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// A name in the place of a text: the same for the same text.
    pub(super) fn name(&self, domain: &str, text: &str) -> String {
        let [a, b, c, d, e, f, ..] = self.hash(domain, &[text.as_bytes()]);
        format!("{domain}-{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}")
    }

    /// A number in the place of another.
    pub(super) fn number(&self, domain: &str, number: u64) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.hash(domain, &[&number.to_le_bytes()]);
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// A token in the place of another: of the tokens below `vocabulary` that are none of `kept`, each place has its own
    /// permutation. So tokens at one place are equal exactly where they were, and those at different places say nothing
    /// of each other.
    pub(super) fn token(&self, place: TokenPlace, token: u32, vocabulary: u32, kept: &[u32]) -> u32 {
        let is_in = |token: u32| token < vocabulary && !kept.contains(&token);
        if kept.contains(&token) {
            return token;
        }
        if token >= vocabulary {
            // No token of the vocabulary may come of one that is none.
            return u32::MAX - (self.number("beyond", u64::from(token)) % 1024) as u32;
        }
        let bits = (u32::BITS - vocabulary.saturating_sub(1).leading_zeros()).max(2).div_ceil(2);
        let mut value = token;
        // Walking on until it is a token again is a permutation, too, and ends since the token itself is on the way.
        loop {
            value = self.permuted(place, value, bits);
            if is_in(value) {
                return value;
            }
        }
    }

    /// A permutation of the numbers of `2 * bits` bits: a Feistel network.
    fn permuted(&self, (request, choice, position): TokenPlace, value: u32, bits: u32) -> u32 {
        let mask = if bits >= 16 { u32::from(u16::MAX) } else { (1 << bits) - 1 };
        let (mut left, mut right) = ((value >> bits.min(16)) & mask, value & mask);
        for round in 0..ROUNDS {
            let parts: [&[u8]; 5] = [
                &request.to_le_bytes(),
                &choice.to_le_bytes(),
                &position.to_le_bytes(),
                &round.to_le_bytes(),
                &right.to_le_bytes(),
            ];
            let [a, b, c, d, ..] = self.hash("token", &parts);
            (left, right) = (right, left ^ (u32::from_le_bytes([a, b, c, d]) & mask));
        }
        (left << bits.min(16)) | right
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_place_has_a_permutation_of_its_own_that_leaves_ends_alone() {
        let salt = Salt::random().unwrap();
        for vocabulary in [2, 7, 256, 259, 5000] {
            let at =
                |place| (0..vocabulary).map(|token| salt.token(place, token, vocabulary, &[1])).collect::<Vec<u32>>();
            let (one, other) = (at((3, 0, 9)), at((3, 0, 10)));
            assert_eq!(one[1], 1);
            assert_eq!(one.iter().collect::<HashSet<_>>().len(), vocabulary as usize, "no two become one");
            assert!(one.iter().all(|token| *token < vocabulary));
            assert!(vocabulary < 256 || one != other, "the position counts");
        }
        assert!(salt.token((0, 0, 0), 70, 50, &[]) >= 50);
        assert!(salt.token((0, 0, 0), u32::MAX - 5, u32::MAX, &[]) < u32::MAX);
    }

    #[test]
    fn salts_are_not_alike() {
        let (one, other) = (Salt::random().unwrap(), Salt::random().unwrap());
        assert_ne!(one.name("id", "a"), other.name("id", "a"));
        assert_eq!(one.name("id", "a"), one.name("id", "a"));
        assert_ne!(one.name("id", "a"), one.name("id", "b"));
    }
}
