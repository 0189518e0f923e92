//! A straight matcher against one that wanders, validates, fills and rolls back: the same at every step.

use proptest::prelude::*;
use serde_json::json;
use stepscope::grammar::{Constraint, Grammar, GrammarError, MaskRow, Matcher, fill};
use stepscope::types::TokenId;

use crate::support::{PLAIN, REAL, Random, SMALL, Vocabulary, walk};

/// What the test does with a matcher; a planted fault is another one.
trait Subject {
    fn matcher(&mut self) -> &mut Matcher;
    fn mask(&mut self) -> MaskRow {
        self.matcher().mask().unwrap()
    }
    fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        self.matcher().consume(token)
    }
    fn rollback(&mut self, count: usize) {
        self.matcher().rollback(count).unwrap();
    }
    fn is_terminated(&mut self) -> bool {
        Matcher::is_terminated(self.matcher())
    }
    fn consumed(&mut self) -> u64 {
        Matcher::consumed(self.matcher())
    }
}

impl Subject for Matcher {
    fn matcher(&mut self) -> &mut Matcher {
        self
    }
}

/// What a position looks like from a matcher that has only ever consumed.
#[derive(Debug, PartialEq)]
struct Position {
    mask: MaskRow,
    accepts_end: bool,
    is_terminated: bool,
    forced: Vec<TokenId>,
}

fn look(subject: &mut dyn Subject) -> Position {
    let mask = subject.mask();
    let is_terminated = subject.is_terminated();
    let matcher = subject.matcher();
    let (accepts_end, forced) = (matcher.accepts_end().unwrap(), matcher.forced(5).unwrap());
    Position { mask, accepts_end, is_terminated, forced }
}

fn straight(grammar: &Grammar, path: &[TokenId]) -> Vec<Position> {
    let mut matcher = grammar.matcher();
    let mut positions = vec![look(&mut matcher)];
    for token in path {
        matcher.consume(*token).unwrap();
        positions.push(look(&mut matcher));
    }
    positions
}

/// Takes `subject` along `path` by detours; says where it first looks otherwise than a straight matcher.
fn differential(
    vocabulary: &Vocabulary,
    grammar: &Grammar,
    path: &[TokenId],
    subject: &mut dyn Subject,
    random: &mut Random,
) -> Result<(), String> {
    let straight = straight(grammar, path);
    let mut at = 0;
    let mut rounds = 0;
    while at < path.len() || rounds < path.len() + 8 {
        rounds += 1;
        let what = match random.below(6) {
            0 | 1 if at < path.len() => {
                let ahead = 1 + random.below(3.min(path.len() - at));
                for token in &path[at..at + ahead] {
                    subject.consume(*token).map_err(|error| format!("at {at}: {error}"))?;
                }
                at += ahead;
                "going on"
            }
            2 => {
                let most = if random.one_in(4) { 9 } else { 3 };
                let back = random.below(at.min(most) + 1);
                subject.rollback(back);
                at -= back;
                "going back"
            }
            3 => {
                let mut window = path[at..path.len().min(at + random.below(6))].to_vec();
                let legal = window.len();
                window.push(TokenId(random.below(vocabulary.size) as u32));
                let valid = subject.matcher().validate(&window).unwrap();
                let expected =
                    match straight[at + legal].mask.allows(window[legal]) && !straight[at + legal].is_terminated {
                        true => legal + 1,
                        false => legal,
                    };
                if valid != expected {
                    return Err(format!("at {at}: expected {expected} valid of {window:?}, found {valid}"));
                }
                "validating"
            }
            4 => {
                let mut window =
                    path[at..path.len().min(at + random.below(9))].iter().copied().map(Some).collect::<Vec<_>>();
                let legal = window.len();
                window.extend((0..random.below(4)).map(|_| match random.one_in(2) {
                    true => None,
                    false => Some(TokenId(random.below(vocabulary.size) as u32)),
                }));
                let rows = fill(subject.matcher(), &window).unwrap();
                if rows.len() != window.len() + 1 {
                    return Err(format!("at {at}: expected {} rows, found {}", window.len() + 1, rows.len()));
                }
                for (index, row) in rows[..=legal].iter().enumerate() {
                    if *row != straight[at + index].mask {
                        return Err(format!("at {at}: row {index} of a fill differs"));
                    }
                }
                let refused = window[legal..].first().is_some_and(|draft| {
                    draft.is_none_or(|token| {
                        !straight[at + legal].mask.allows(token) || straight[at + legal].is_terminated
                    })
                });
                if refused && rows[legal + 1..].iter().any(|row| *row != MaskRow::all(vocabulary.size)) {
                    return Err(format!("at {at}: a row after a refused draft is not permissive"));
                }
                "filling"
            }
            _ => {
                let mut astray = 0;
                for _ in 0..random.below(12) {
                    if subject.is_terminated() {
                        break;
                    }
                    let allowed = subject.mask().allowed().collect::<Vec<_>>();
                    let token = allowed[random.below(allowed.len())];
                    subject.consume(token).map_err(|error| format!("at {at}, {astray} astray: {error}"))?;
                    astray += 1;
                    if random.one_in(4) {
                        let refused = TokenId(random.below(vocabulary.size) as u32);
                        if !subject.mask().allows(refused) && subject.consume(refused).is_ok() {
                            return Err(format!("at {at}, {astray} astray: {refused} was consumed"));
                        }
                    }
                }
                subject.rollback(astray);
                "going astray and back"
            }
        };
        if subject.consumed() != at as u64 {
            return Err(format!("at {at}, after {what}: {} tokens are consumed", subject.consumed()));
        }
        let found = look(subject);
        if found != straight[at] {
            let difference = match found.mask == straight[at].mask {
                true => "the end or what is forced differs".to_owned(),
                false => format!(
                    "{} tokens allowed, {} in a straight line",
                    found.mask.population(),
                    straight[at].mask.population()
                ),
            };
            return Err(format!("at {at} of {}, after {what}: {difference}", path.len()));
        }
    }
    for back in [1, path.len() - 1] {
        subject.rollback(back);
        at -= back;
        if look(subject) != straight[at] {
            return Err(format!("at {at} of {}, after going back over the end", path.len()));
        }
    }
    Ok(())
}

/// One of every kind, with the shapes that rollback could get wrong: lexemes left half, recursion, lazy texts, ends.
pub fn constraints() -> Vec<Constraint> {
    let call = json!({
        "type": "object",
        "properties": {
            "name": {"enum": ["get_weather", "get_time"]},
            "arguments": {
                "type": "object",
                "properties": {"city": {"type": "string", "minLength": 1, "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
                "required": ["city"],
                "additionalProperties": false
            }
        },
        "required": ["name", "arguments"],
        "additionalProperties": false
    });
    let tree = json!({
        "$defs": {"node": {
            "type": "object",
            "properties": {"value": {"type": ["number", "null"]}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3}},
            "required": ["value"]
        }},
        "$ref": "#/$defs/node"
    });
    let lazy = format!("start: text \"</call>\" | \"none\"\ntext[lazy]: /[a-z ]*<call>/ \n// a schema {}", "%json");
    let embedded =
        format!("start: \"<tool_call>\" call \"</tool_call>\" tail?\ncall: %json {call}\ntail: /[ \\n]+/ start");
    vec![
        Constraint::JsonObject,
        Constraint::JsonSchema(call),
        Constraint::JsonSchema(tree),
        Constraint::JsonSchema(
            json!({"type": "array", "items": {"type": "string", "format": "date-time"}, "minItems": 1}),
        ),
        Constraint::Regex("(ab|cde)+x{2,5}(-[0-9]{3})?".to_owned()),
        Constraint::Regex("[^\"]{3,40}é?".to_owned()),
        Constraint::Choice(["yes", "no", "none", "yes, sir", "é", "<|im_end|>"].map(str::to_owned).to_vec()),
        Constraint::Lark(
            "start: sum\nsum: term (\"+\" term)*\nterm: NUMBER | \"(\" sum \")\"\nNUMBER: /[0-9]+/\n%ignore / +/"
                .to_owned(),
        ),
        Constraint::Lark(lazy),
        Constraint::Lark(embedded),
        Constraint::Lark("start: <|im_start|> /[a-z]+/ <|im_start|>*".to_owned()),
    ]
}

fn check(vocabulary: &Vocabulary, constraint: &Constraint, seed: u64) -> Result<(), String> {
    let grammar = vocabulary.compile(constraint);
    let mut random = Random(seed);
    let path = walk(vocabulary, &mut grammar.matcher(), &mut random).ok_or("a walk without an end")?;
    differential(vocabulary, &grammar, &path, &mut grammar.matcher(), &mut random)
        .map_err(|error| format!("{constraint:?}, {:?}: {error}", vocabulary.text(&path[..path.len() - 1])))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rollback_leaves_no_trace(seed: u64, kind in 0..constraints().len()) {
        check(&SMALL, &constraints()[kind], seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn rollback_leaves_no_trace_with_any_tokenization(seed: u64, kind in 0..constraints().len()) {
        check(&PLAIN, &constraints()[kind], seed).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn rollback_leaves_no_trace_with_the_real_tokenizer() {
    for (kind, constraint) in constraints().iter().enumerate() {
        for seed in 0..3 {
            check(&REAL, constraint, seed * 100 + kind as u64).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// A fault: one token too few is taken back, while the count of consumed tokens is what it should be.
struct RollbackShortByOne {
    matcher: Matcher,
    left: u64,
}

impl Subject for RollbackShortByOne {
    fn matcher(&mut self) -> &mut Matcher {
        &mut self.matcher
    }
    fn rollback(&mut self, count: usize) {
        self.matcher.rollback(count.saturating_sub(1)).unwrap();
        self.left += u64::from(count > 0);
    }
    fn consumed(&mut self) -> u64 {
        Matcher::consumed(&self.matcher) - self.left
    }
}

/// A fault: an end token counts, and is not taken back.
struct EndStays {
    matcher: Matcher,
    ended: bool,
}

impl Subject for EndStays {
    fn matcher(&mut self) -> &mut Matcher {
        &mut self.matcher
    }
    fn mask(&mut self) -> MaskRow {
        match self.ended {
            true => MaskRow::all(self.matcher.vocabulary_size()),
            false => self.matcher.mask().unwrap(),
        }
    }
    fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        self.matcher.consume(token)?;
        self.ended |= Matcher::is_terminated(&self.matcher);
        Ok(())
    }
    fn is_terminated(&mut self) -> bool {
        self.ended
    }
}

/// A fault: a refused token is skipped, as if it had been consumed.
struct RefusalSwallowed(Matcher);

impl Subject for RefusalSwallowed {
    fn matcher(&mut self) -> &mut Matcher {
        &mut self.0
    }
    fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        let _ = self.0.consume(token);
        Ok(())
    }
}

/// By how many of 40 seeds per constraint a subject is found out.
fn caught(make: impl Fn(Matcher) -> Box<dyn Subject>) -> Vec<usize> {
    let vocabulary = &*SMALL;
    let count = |constraint: &Constraint| {
        let grammar = vocabulary.compile(constraint);
        let differs = |seed: &u64| {
            let mut random = Random(*seed);
            let path = walk(vocabulary, &mut grammar.matcher(), &mut random).unwrap();
            differential(vocabulary, &grammar, &path, &mut *make(grammar.matcher()), &mut random).is_err()
        };
        (0..40).filter(differs).count()
    };
    constraints().iter().map(count).collect()
}

#[test]
fn a_sound_matcher_is_never_found_out() {
    assert_eq!(caught(|matcher| Box::new(matcher)), vec![0; constraints().len()]);
}

#[test]
fn a_rollback_short_by_one_is_found_out() {
    let caught = caught(|matcher| Box::new(RollbackShortByOne { matcher, left: 0 }));
    assert_eq!(caught, vec![40; constraints().len()]);
}

#[test]
fn an_end_token_that_stays_is_found_out() {
    let caught = caught(|matcher| Box::new(EndStays { matcher, ended: false }));
    assert_eq!(caught, vec![40; constraints().len()]);
}

#[test]
fn a_swallowed_refusal_is_found_out() {
    let caught = caught(|matcher| Box::new(RefusalSwallowed(matcher)));
    assert!(caught.iter().sum::<usize>() >= 20, "{caught:?}");
}
