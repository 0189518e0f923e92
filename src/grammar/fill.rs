//! The engine's fill: the mask rows of a window of drafts.

use crate::grammar::{GrammarError, MaskRow, Matcher};
use crate::types::TokenId;

/// The mask rows of a window: row `i` says what may come after the first `i` drafts, so there is one more than drafts.
///
/// `None` is a withheld draft. Rows after the first draft that is withheld or refused allow everything, and so does the
/// row after an end token: no token that is drawn from them can be emitted. The matcher is left where it was.
///
/// # Errors
/// If the library fails.
pub fn fill(matcher: &mut Matcher, drafts: &[Option<TokenId>]) -> Result<Vec<MaskRow>, GrammarError> {
    let mut rows = vec![matcher.mask()?];
    let mut consumed = 0;
    for draft in drafts.iter().map_while(|draft| *draft) {
        match matcher.consume(draft) {
            Ok(()) => consumed += 1,
            Err(GrammarError::NotAllowed { .. }) => break,
            Err(error) => return Err(error),
        }
        rows.push(matcher.mask()?);
    }
    rows.resize(drafts.len() + 1, MaskRow::all(matcher.vocabulary_size()));
    matcher.rollback(consumed)?;
    Ok(rows)
}
