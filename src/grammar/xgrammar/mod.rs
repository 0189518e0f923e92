//! XGrammar: the library that vLLM has by default, in builds with the feature `xgrammar`.

mod ebnf;
mod expression;
mod lark;
mod marker;
mod path;
mod schema;
mod values;
mod vocabulary;

use std::sync::Arc;
use std::thread;

use serde_json::{Value as Json, json};
use xgrammar::{
    CompiledGrammar, Grammar, GrammarCompiler, NamedGrammar, NamedGrammarSource, TokenizerInfo, XGrammarErr,
};

use crate::grammar::factory::{GrammarSettings, Whitespace, refused};
use crate::grammar::library::{Compiled, Library};
use crate::grammar::{Constraint, GrammarError, regex};
use crate::model::Tokenizer;
use expression::Subject;
use path::Start;
use vocabulary::{SpecialTokens, Surrogates};

/// Stack of a compilation: the library goes through nested schemas and expressions by recursion.
const STACK_BYTES: usize = 64 << 20;

pub(super) struct Xgrammar {
    info: TokenizerInfo,
    tokens: SpecialTokens,
    settings: GrammarSettings,
    /// None where rows have to be as vLLM has them.
    surrogates: Option<Arc<Surrogates>>,
}

impl Xgrammar {
    pub(super) fn new(
        tokenizer: &Tokenizer,
        vocabulary_size: usize,
        settings: GrammarSettings,
    ) -> Result<Self, GrammarError> {
        let info = vocabulary::tokenizer_info(tokenizer, vocabulary_size, settings.as_vllm)?;
        let surrogates = (!settings.as_vllm).then(|| Arc::new(Surrogates::of(tokenizer)));
        Ok(Self { info, tokens: SpecialTokens::of(tokenizer), settings, surrogates })
    }

    /// All of the constraint, or a reason why not.
    fn compile_checked(&self, constraint: &Constraint) -> Result<CompiledGrammar, GrammarError> {
        let refused = |found: String| refused(constraint, found);
        let compile =
            |grammar: &Grammar| self.compiler().compile_grammar(grammar).map_err(|error| refused(error.to_string()));
        match constraint {
            Constraint::JsonObject => compile(&self.schema(constraint, &json!({"type": "object"}))?),
            Constraint::JsonSchema(source) => compile(&self.schema(constraint, source)?),
            Constraint::Regex(source) => compile(&self.expression(constraint, regex::checked(source)?)?),
            Constraint::Choice(texts) => compile(&self.expression(constraint, &regex::any_of(texts)?)?),
            Constraint::Lark(source) => {
                let prepared = lark::prepare(source, &self.tokens)?;
                let grammars: Result<Vec<Grammar>, GrammarError> =
                    prepared.schemas.iter().map(|schema| self.schema(constraint, schema)).collect();
                let grammars = grammars?;
                let named: Vec<NamedGrammar<'_>> = prepared
                    .names
                    .iter()
                    .zip(&grammars)
                    .map(|(name, grammar)| NamedGrammar { name, grammar: NamedGrammarSource::Grammar(grammar) })
                    .collect();
                let compiled = self.compiler().compile_lark(&prepared.source, Some(&named));
                compiled.map_err(|error| refused(error.to_string()))
            }
            Constraint::Ebnf(source) => {
                ebnf::check(source)?;
                compile(&Grammar::from_ebnf(source, None).map_err(|error| refused(error.to_string()))?)
            }
        }
    }

    fn schema(&self, constraint: &Constraint, schema: &Json) -> Result<Grammar, GrammarError> {
        let prepared = schema::prepare(schema)?.to_string();
        let separators = match self.settings.whitespace {
            Whitespace::Any => None,
            Whitespace::Single => Some((", ".to_owned(), ": ".to_owned())),
            Whitespace::None => Some((",".to_owned(), ":".to_owned())),
        };
        let any = Some(self.settings.whitespace == Whitespace::Any);
        Grammar::from_json_schema(&prepared, any, None, separators, Some(false), None, None, None)
            .map_err(|error| refused(constraint, error.to_string()))
    }

    fn expression(&self, constraint: &Constraint, source: &str) -> Result<Grammar, GrammarError> {
        let refused = |found: String| refused(constraint, found);
        let expression = expression::translate(source, "", Subject::Text).map_err(refused)?;
        Grammar::from_regex(&expression, None).map_err(|error| refused(error.to_string()))
    }

    /// As vLLM has it compile, with nothing looked at before.
    fn compile_as_vllm(&self, constraint: &Constraint) -> Result<CompiledGrammar, XGrammarErr> {
        let compiler = self.compiler();
        let schema = |schema: &str| {
            let any = self.settings.whitespace == Whitespace::Any;
            compiler.compile_json_schema(schema, Some(any), None, None, None, None, None)
        };
        match constraint {
            Constraint::JsonObject => schema(r#"{"type": "object"}"#),
            Constraint::JsonSchema(source) => schema(&source.to_string()),
            Constraint::Regex(source) => compiler.compile_regex(source),
            Constraint::Choice(texts) => compiler.compile_grammar(&Grammar::from_ebnf(&choice(texts), None)?),
            Constraint::Lark(source) => compiler.compile_lark(source, None),
            Constraint::Ebnf(source) => compiler.compile_grammar(&Grammar::from_ebnf(source, None)?),
        }
    }

    /// One without a cache: grammars are kept where they are asked for.
    fn compiler(&self) -> GrammarCompiler {
        GrammarCompiler::with(&self.info, Some(1), Some(false), None)
    }
}

impl Library for Xgrammar {
    fn compile(&self, constraint: &Constraint) -> Result<Box<dyn Compiled>, GrammarError> {
        let compile = || match self.settings.as_vllm {
            true => self.compile_as_vllm(constraint).map_err(|error| refused(constraint, error.to_string())),
            false => self.compile_checked(constraint),
        };
        let grammar = thread::scope(|scope| {
            let builder = thread::Builder::new().name("grammar".to_owned()).stack_size(STACK_BYTES);
            let thread =
                builder.spawn_scoped(scope, compile).map_err(|error| refused(constraint, error.to_string()))?;
            thread.join().unwrap_or_else(|_| Err(refused(constraint, "the grammar library panicked".to_owned())))
        })?;
        let start = Start::new(grammar, self.info.get_vocab_size(), self.surrogates.clone());
        // The first row finds out a grammar that nothing satisfies.
        let first = start.start().mask().map_err(|found| refused(constraint, found))?;
        if !self.settings.as_vllm && first.iter().all(|word| *word == 0) {
            return Err(refused(constraint, "nothing that satisfies it".to_owned()));
        }
        let is_json = matches!(constraint, Constraint::JsonObject | Constraint::JsonSchema(_));
        if is_json && !self.settings.as_vllm && start.start().is_accepting() == Ok(true) {
            return Err(refused(constraint, "a grammar of the library's that the empty text satisfies".to_owned()));
        }
        Ok(Box::new(start))
    }
}

/// A choice as vLLM writes it.
fn choice(texts: &[String]) -> String {
    let quoted = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    format!("root ::= {}", texts.iter().map(quoted).collect::<Vec<_>>().join(" | "))
}
