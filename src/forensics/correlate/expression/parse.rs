//! From text to an expression, by recursive descent.

use super::{Column, Node};
use crate::capture::conditions::CONDITIONS;
use crate::forensics::correlate::columns::{Kind, ROW_COLUMNS};
use crate::forensics::correlate::predicate::Comparison;

/// Deepest nesting of parentheses and negations.
const MOST_DEPTH: usize = 64;
/// Longest expression, in bytes.
const MOST_BYTES: usize = 4096;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {}: {what}", .character)]
pub struct ExpressionError {
    /// The character it went wrong at, counted from 1.
    character: usize,
    what: String,
}

/// Parses a whole text into something that is true or false.
pub(super) fn parse(text: &str) -> Result<Node, ExpressionError> {
    if text.len() > MOST_BYTES {
        let what = format!("the expression has {} bytes, of which at most {MOST_BYTES} are read", text.len());
        return Err(ExpressionError { character: 1, what });
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, end: text.chars().count() + 1 };
    let node = parser.either()?;
    if let Some(token) = parser.peek() {
        return Err(token.error(format!("expected `and`, `or` or the end, found `{}`", token.text)));
    }
    match node.kind {
        Some(Kind::Truth) => Ok(node.node),
        Some(Kind::Number | Kind::Word) | None => {
            Err(node.error("expected something true or false: a comparison, say"))
        }
    }
}

#[derive(Clone, Debug)]
struct Token {
    text: String,
    /// Counted from 1.
    character: usize,
    is_quoted: bool,
}

/// A part of the expression, where it begins, and what it is; `None` is a word that no column has as its name.
struct Typed {
    node: Node,
    kind: Option<Kind>,
    character: usize,
    is_unknown_name: bool,
}

impl Token {
    fn error(&self, what: String) -> ExpressionError {
        ExpressionError { character: self.character, what }
    }

    fn is(&self, text: &str) -> bool {
        !self.is_quoted && self.text == text
    }
}

impl Typed {
    fn error(&self, what: &str) -> ExpressionError {
        let what = match &self.node {
            Node::Word(name) if self.is_unknown_name => unknown(name),
            _ => what.to_owned(),
        };
        ExpressionError { character: self.character, what }
    }
}

/// Says which columns there are, the nearest first.
fn unknown(name: &str) -> String {
    let names = CONDITIONS.iter().map(|condition| condition.name).chain(ROW_COLUMNS.iter().map(|column| column.name));
    let names: Vec<&str> = names.collect();
    let nearest = names
        .iter()
        .max_by(|left, right| strsim::jaro_winkler(name, left).total_cmp(&strsim::jaro_winkler(name, right)));
    let hint = nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"));
    format!(
        "`{name}` is no column{hint} Columns of steps, and with `previous.` before them those of the step before: {}. \
         Columns of rows: {}",
        names[..CONDITIONS.len()].join(", "),
        names[CONDITIONS.len()..].join(", ")
    )
}

fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = characters.get(at) {
        let character = at + 1;
        let while_true = |from: usize, holds: &dyn Fn(char) -> bool| -> String {
            characters.iter().skip(from).take_while(|character| holds(**character)).collect()
        };
        let mut is_quoted = false;
        let text = match first {
            first if first.is_whitespace() => {
                at += 1;
                continue;
            }
            '\'' | '"' => {
                is_quoted = true;
                let word = while_true(at + 1, &|character| character != first);
                let length = word.chars().count();
                if characters.get(at + 1 + length).is_none() {
                    return Err(ExpressionError { character, what: format!("the word has no closing {first}") });
                }
                at += length + 2;
                word
            }
            first if first.is_ascii_alphanumeric() || first == '_' || first == '.' => {
                let is_part = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
                let word = while_true(at, &is_part);
                at += word.chars().count();
                word
            }
            '=' | '!' | '<' | '>' => {
                let sign = while_true(at, &|character| "=!<>".contains(character));
                at += sign.chars().count();
                sign
            }
            '(' | ')' | '+' | '-' => {
                at += 1;
                first.to_string()
            }
            other => {
                let what =
                    format!("`{other}` means nothing here; comparisons are == != < <= > >=, and words and, or, not");
                return Err(ExpressionError { character, what });
            }
        };
        tokens.push(Token { text, character, is_quoted });
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The character after the last one.
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes the next token if it is that one.
    fn takes(&mut self, text: &str) -> bool {
        let is_next = self.peek().is_some_and(|token| token.is(text));
        self.at += usize::from(is_next);
        is_next
    }

    fn either(&mut self) -> Result<Typed, ExpressionError> {
        let mut left = self.both()?;
        while self.takes("or") {
            let right = self.both()?;
            left = joined(left, right, Node::Or)?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Typed, ExpressionError> {
        let mut left = self.negated()?;
        while self.takes("and") {
            let right = self.negated()?;
            left = joined(left, right, Node::And)?;
        }
        Ok(left)
    }

    fn negated(&mut self) -> Result<Typed, ExpressionError> {
        let Some(character) = self.peek().filter(|token| token.is("not")).map(|token| token.character) else {
            return self.compared();
        };
        self.at += 1;
        self.deeper(character)?;
        let node = truth(self.negated()?)?;
        self.depth -= 1;
        let node = Node::Not(Box::new(node.node));
        Ok(Typed { node, kind: Some(Kind::Truth), character, is_unknown_name: false })
    }

    fn compared(&mut self) -> Result<Typed, ExpressionError> {
        let left = self.sum()?;
        let Some(sign) = self.peek().filter(|token| !token.is_quoted).cloned() else { return Ok(left) };
        let comparison = match sign.text.as_str() {
            "==" | "=" => Comparison::Equal,
            "!=" => Comparison::Unequal,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            ">=" => Comparison::AtLeast,
            text if text.contains(['=', '<', '>', '!']) => {
                return Err(sign.error(format!("`{text}` is no comparison; they are == != < <= > >=")));
            }
            _ => return Ok(left),
        };
        self.at += 1;
        let right = self.sum()?;
        // A name that no column has is a word where a column of words is compared with it.
        let are_words = [left.kind, right.kind].contains(&Some(Kind::Word));
        let kind_of = |typed: &Typed| if are_words && typed.is_unknown_name { Some(Kind::Word) } else { typed.kind };
        match (kind_of(&left), kind_of(&right)) {
            (None, _) => return Err(left.error("")),
            (_, None) => return Err(right.error("")),
            (Some(one), Some(other)) if one != other => {
                return Err(sign.error(format!("{} and {} cannot be compared", named(one), named(other))));
            }
            (Some(Kind::Truth | Kind::Word), _) if !matches!(comparison, Comparison::Equal | Comparison::Unequal) => {
                return Err(sign.error(format!("`{}` compares numbers alone", sign.text)));
            }
            (Some(_), Some(_)) => {}
        }
        let character = left.character;
        let node = Node::Compare(Box::new(left.node), comparison, Box::new(right.node));
        Ok(Typed { node, kind: Some(Kind::Truth), character, is_unknown_name: false })
    }

    fn sum(&mut self) -> Result<Typed, ExpressionError> {
        let mut sum = self.atom()?;
        loop {
            let sign = match self.peek() {
                Some(token) if token.is("+") => 1.0,
                Some(token) if token.is("-") => -1.0,
                Some(_) | None => return Ok(sum),
            };
            self.at += 1;
            if sum.kind != Some(Kind::Number) {
                return Err(sum.error("something is added to it that is no number"));
            }
            let added = self.number()?;
            sum.node = Node::Sum(Box::new(sum.node), sign * added);
        }
    }

    /// A number without a sign.
    fn number(&mut self) -> Result<f64, ExpressionError> {
        let Some(token) = self.peek().cloned() else { return Err(self.cut("a number")) };
        let number = digits(&token);
        self.at += 1;
        number.ok_or_else(|| token.error(format!("expected a number, found `{}`", token.text)))
    }

    fn atom(&mut self) -> Result<Typed, ExpressionError> {
        let Some(token) = self.peek().cloned() else { return Err(self.cut("a column or a number")) };
        self.at += 1;
        let typed = |node, kind| Ok(Typed { node, kind, character: token.character, is_unknown_name: false });
        if token.is_quoted {
            return typed(Node::Word(token.text.clone()), Some(Kind::Word));
        }
        if let Some(number) = digits(&token) {
            return typed(Node::Number(number), Some(Kind::Number));
        }
        match token.text.as_str() {
            "(" => {
                self.deeper(token.character)?;
                let inner = self.either()?;
                if !self.takes(")") {
                    let what = || token.error("this parenthesis is not closed".to_owned());
                    return Err(self
                        .peek()
                        .map_or_else(what, |found| found.error(format!("expected `)`, found `{}`", found.text))));
                }
                self.depth -= 1;
                Ok(inner)
            }
            "-" => {
                let number = self.number()?;
                typed(Node::Number(-number), Some(Kind::Number))
            }
            "true" => typed(Node::Truth(true), Some(Kind::Truth)),
            "false" => typed(Node::Truth(false), Some(Kind::Truth)),
            name if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') => {
                match Column::named(name) {
                    Some(column) => typed(Node::Column(column), column.kind()),
                    None if ["and", "or", "not"].contains(&name) => {
                        Err(token.error(format!("expected a column or a number, found `{name}`")))
                    }
                    None => Ok(Typed {
                        node: Node::Word(name.to_owned()),
                        kind: None,
                        character: token.character,
                        is_unknown_name: true,
                    }),
                }
            }
            other => Err(token.error(format!("expected a column or a number, found `{other}`"))),
        }
    }

    fn deeper(&mut self, character: usize) -> Result<(), ExpressionError> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            let what = format!("it nests deeper than {MOST_DEPTH} levels");
            return Err(ExpressionError { character, what });
        }
        Ok(())
    }

    fn cut(&self, expected: &str) -> ExpressionError {
        ExpressionError { character: self.end, what: format!("expected {expected}, found the end") }
    }
}

/// The number that a token is.
fn digits(token: &Token) -> Option<f64> {
    let is_number = !token.is_quoted && token.text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if is_number { token.text.parse().ok() } else { None }
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "a number",
        Kind::Truth => "a truth",
        Kind::Word => "a word",
    }
}

fn truth(typed: Typed) -> Result<Typed, ExpressionError> {
    if typed.kind == Some(Kind::Truth) { Ok(typed) } else { Err(typed.error("expected something true or false")) }
}

fn joined(left: Typed, right: Typed, join: fn(Box<Node>, Box<Node>) -> Node) -> Result<Typed, ExpressionError> {
    let (left, right) = (truth(left)?, truth(right)?);
    let character = left.character;
    let node = join(Box::new(left.node), Box::new(right.node));
    Ok(Typed { node, kind: Some(Kind::Truth), character, is_unknown_name: false })
}
