//! A grammar that begins after a reasoning section: at the token that ends it, wherever in a step that stands.

use stepscope::engine::constraint::{GrammarPosition, OutputGrammar, SequenceGrammar};
use stepscope::grammar::{Constraint, MaskRow};
use stepscope::types::TokenId;

use crate::support::SMALL;

fn token(text: &str) -> TokenId {
    SMALL.tokenizer.token_id(text).unwrap()
}

fn end() -> TokenId {
    token("</tool_call>")
}

fn sequence(begins_after: Option<TokenId>) -> SequenceGrammar {
    let constraint = Constraint::Regex("[ab]z{2}".to_owned());
    let grammar = SMALL.compile(&constraint);
    SequenceGrammar::new(&OutputGrammar { constraint, grammar, begins_after })
}

fn allowed(row: &Option<MaskRow>) -> Option<Vec<TokenId>> {
    row.as_ref().map(|row| row.allowed().collect())
}

#[test]
fn the_row_after_the_end_of_reasoning_is_the_grammar_s_first() {
    let mut grammar = sequence(Some(end()));
    let (x, a, b, z) = (token("x"), token("a"), token("b"), token("z"));
    let window = [x, end(), a, z, z];
    let rows = grammar.fill(&window.map(Some)).unwrap();
    let ends = SMALL.tokenizer.end_tokens().to_vec();
    let expected = [None, None, Some(vec![a, b]), Some(vec![z]), Some(vec![z]), Some(ends)];
    assert_eq!(rows.iter().map(allowed).collect::<Vec<_>>(), expected);
    assert_eq!(grammar.position(), GrammarPosition { consumed: 0, terminated: false, reasoning: true });
    assert_eq!(grammar.legal(&window).unwrap(), 5);
    assert_eq!(grammar.legal(&[x, end(), a, x]).unwrap(), 3);
    assert_eq!(grammar.legal(&[x, x, x]).unwrap(), 3);
    assert_eq!(grammar.forced(4).unwrap(), []);
}

#[test]
fn a_withheld_draft_hides_the_end_of_reasoning_behind_it() {
    let mut grammar = sequence(Some(end()));
    let (x, a) = (token("x"), token("a"));
    let hidden = grammar.fill(&[Some(x), None, Some(end()), Some(a)]).unwrap();
    assert_eq!(hidden, [const { None }; 5]);
    let after = grammar.fill(&[Some(end()), None, Some(a)]).unwrap();
    let all = MaskRow::all(SMALL.size);
    assert_eq!(after[0], None);
    assert_eq!(allowed(&after[1]), Some(vec![a, token("b")]));
    assert_eq!(after[2..], [Some(all.clone()), Some(all)]);
}

#[test]
fn what_follows_the_end_of_reasoning_in_the_same_step_is_the_grammar_s() {
    let mut grammar = sequence(Some(end()));
    let (x, a, z) = (token("x"), token("a"), token("z"));
    grammar.commit(&[x]).unwrap();
    assert!(grammar.position().reasoning);
    grammar.commit(&[x, end(), a]).unwrap();
    assert_eq!(grammar.position(), GrammarPosition { consumed: 1, terminated: false, reasoning: false });
    assert_eq!(grammar.forced(4).unwrap(), [z, z, SMALL.tokenizer.end_tokens()[0]]);
    assert!(grammar.commit(&[x]).is_err());
    grammar.commit(&[z, z]).unwrap();
    // The marker is a token like any other once the section is over.
    assert_eq!(grammar.legal(&[end()]).unwrap(), 0);
}

#[test]
fn without_a_reasoning_section_the_output_begins_with_the_grammar() {
    let mut grammar = sequence(None);
    let rows = grammar.fill(&[Some(token("a"))]).unwrap();
    assert!(rows.iter().all(Option::is_some));
    assert!(!grammar.position().reasoning);
}
