//! The best values of a row, without sorting the row.

use crate::types::TokenId;

/// The `count` best tokens of a row, best first: value descending, id ascending. -infinity counts as a value; a row
/// with fewer values gives them all. The row must hold no NaN.
pub fn best_tokens(row: &[f32], count: usize) -> Vec<(TokenId, f32)> {
    let mut tokens: Vec<_> = row.iter().zip(0..).map(|(&value, id)| (TokenId(id), value)).collect();
    tokens.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    tokens.truncate(count);
    tokens
}
