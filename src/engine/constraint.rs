//! The grammar of a running sequence: where it begins, which drafts it accepts, and what it allows row by row.

use crate::grammar::{self, Constraint, Grammar, GrammarError, MaskRow, Matcher};
use crate::types::TokenId;

/// What a request's output has to follow, compiled.
#[derive(Clone, Debug)]
pub struct OutputGrammar {
    /// As the request has it.
    pub constraint: Constraint,
    /// Compiled.
    pub grammar: Grammar,
    /// The token that ends the reasoning section before it; `None` where the grammar begins with the output.
    pub begins_after: Option<TokenId>,
}

/// Where a sequence stands in its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrammarPosition {
    /// Tokens that the grammar has consumed.
    pub consumed: u64,
    /// Whether it has consumed an end token, after which nothing may come.
    pub terminated: bool,
    /// Whether it has not begun yet: the sequence is in its reasoning section.
    pub reasoning: bool,
}

/// The grammar of one sequence.
///
/// In a reasoning section everything may come, and nothing has a mask. The token that ends the section may stand anywhere
/// in a step, between two drafts too: the row after it is the grammar's first.
#[derive(Debug)]
pub struct SequenceGrammar {
    matcher: Matcher,
    /// The token that the grammar waits for.
    begins_after: Option<TokenId>,
}

impl SequenceGrammar {
    /// The grammar of a sequence that has emitted nothing yet.
    pub fn new(output: &OutputGrammar) -> Self {
        Self { matcher: output.grammar.matcher(), begins_after: output.begins_after }
    }

    /// Where the sequence stands.
    pub fn position(&self) -> GrammarPosition {
        GrammarPosition {
            consumed: self.matcher.consumed(),
            terminated: self.matcher.is_terminated(),
            reasoning: self.begins_after.is_some(),
        }
    }

    /// The token that ends the reasoning section, while the sequence is in it.
    pub fn begins_after(&self) -> Option<TokenId> {
        self.begins_after
    }

    /// **Validate**: how many of the drafts may come, one after the other.
    ///
    /// # Errors
    /// If the grammar library fails; it fails in [`SequenceGrammar::fill`] as well then.
    pub fn legal(&mut self, drafts: &[TokenId]) -> Result<usize, GrammarError> {
        let free = self.free(drafts);
        Ok(free + self.matcher.validate(&drafts[free..])?)
    }

    /// The tokens that have to come next, at most `limit`.
    ///
    /// # Errors
    /// If the grammar library fails.
    pub fn forced(&mut self, limit: usize) -> Result<Vec<TokenId>, GrammarError> {
        match self.begins_after {
            None => self.matcher.forced(limit),
            Some(_) => Ok(Vec::new()),
        }
    }

    /// **Fill and roll back**: the mask rows of a query whose places are `drafts`, one more than there are places. A row in
    /// the reasoning section has none. For what comes after a withheld draft see [`grammar::fill()`].
    ///
    /// # Errors
    /// If the grammar library fails.
    pub fn fill(&mut self, drafts: &[Option<TokenId>]) -> Result<Vec<Option<MaskRow>>, GrammarError> {
        let known: Vec<TokenId> = drafts.iter().map_while(|draft| *draft).collect();
        let free = self.free(&known);
        if self.begins_after.is_some_and(|end| !known.contains(&end)) {
            return Ok(vec![None; drafts.len() + 1]);
        }
        let rows = grammar::fill(&mut self.matcher, &drafts[free..])?;
        Ok(std::iter::repeat_n(None, free).chain(rows.into_iter().map(Some)).collect())
    }

    /// **Commit**: the sequence has emitted these tokens.
    ///
    /// # Errors
    /// If the grammar does not allow one of them, or the library fails.
    pub fn commit(&mut self, tokens: &[TokenId]) -> Result<(), GrammarError> {
        let free = self.free(tokens);
        if self.begins_after.is_some_and(|end| tokens[..free].contains(&end)) {
            self.begins_after = None;
        }
        tokens[free..].iter().try_for_each(|token| self.matcher.consume(*token))
    }

    /// How many of the tokens belong to the reasoning section, the one that ends it included.
    fn free(&self, tokens: &[TokenId]) -> usize {
        let Some(end) = self.begins_after else { return 0 };
        tokens.iter().position(|token| *token == end).map_or(tokens.len(), |index| index + 1)
    }
}
