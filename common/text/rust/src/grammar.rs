//! What a request's output must look like: a JSON schema, a regular expression or a Lark grammar, by the crate
//! `llguidance`.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use crate::Failure;

#[derive(Clone, Copy)]
pub enum Language {
    JsonSchema,
    Regex,
    Lark,
}

/// The vocabulary, laid out for grammars. Made once for each.
pub struct Grammars {
    factory: ParserFactory,
}

/// Where one output stands in its grammar.
pub struct Grammar {
    matcher: Matcher,
}

/// Brackets within brackets; parsers of grammars call themselves for each.
const NESTING_MAX: usize = 128;
const COMPILE_STACK_BYTES: usize = 16 << 20;

impl Grammars {
    /// `tokens`: their bytes, none for control tokens, which no grammar allows but `ends`.
    pub fn new(tokens: &[&[u8]], ends: &[u32]) -> Result<Self, Failure> {
        let first = *ends.first().ok_or_else(|| Failure::failed_precondition("the model has no end token"))?;
        let info = TokRxInfo::new(tokens.len() as u32, first);
        let words: Vec<Vec<u8>> = tokens.iter().map(|token| token.to_vec()).collect();
        let trie = TokTrie::from(&info, &words).with_eos_tokens(ends);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(|error| Failure::internal(format!("the vocabulary cannot be used with grammars: {error}")))?;
        factory.quiet();
        // A tenth of the defaults: at most about 20 ms to compile, 5 ms and some 20 MB for a token.
        let limits = factory.limits_mut();
        limits.initial_lexer_fuel = 1_000_000;
        limits.step_lexer_fuel = 70_000;
        limits.step_max_items = 20_000;
        limits.max_lexer_states = 20_000;
        limits.max_grammar_size = 100_000;
        limits.verbose_errors = false;
        Ok(Grammars { factory })
    }

    pub fn compile(&self, language: Language, text: &str) -> Result<Grammar, Failure> {
        if nesting(text) > NESTING_MAX {
            return Err(Failure::invalid_argument(format!("brackets are nested more than {NESTING_MAX} deep")));
        }
        std::thread::scope(|scope| {
            let compiled = std::thread::Builder::new()
                .stack_size(COMPILE_STACK_BYTES)
                .spawn_scoped(scope, || self.compile_here(language, text))
                .map_err(|error| Failure::internal(format!("no thread to compile a grammar: {error}")))?;
            compiled.join().unwrap_or_else(|_| Err(Failure::internal("the compiler of grammars failed")))
        })
    }

    fn compile_here(&self, language: Language, text: &str) -> Result<Grammar, Failure> {
        let grammar = match language {
            Language::JsonSchema => {
                let schema = serde_json::from_str(text)
                    .map_err(|error| Failure::invalid_argument(format!("not JSON: {error}")))?;
                TopLevelGrammar::from_json_schema(with_strict_spaces(schema))
            }
            Language::Regex => TopLevelGrammar::from_regex(text),
            Language::Lark => TopLevelGrammar::from_lark(text.to_string()),
        };
        let mut matcher = Matcher::new(self.factory.create_parser(grammar));
        // What cannot begin is refused now.
        match matcher.compute_mask() {
            Ok(mask) if mask.is_zero() => Err(Failure::invalid_argument("no text fits it")),
            Ok(_) => Ok(Grammar { matcher }),
            Err(error) => Err(Failure::invalid_argument(error.to_string())),
        }
    }
}

impl Grammar {
    pub fn copy(&self) -> Grammar {
        Grammar { matcher: self.matcher.deep_clone() }
    }

    /// The tokens that may come next, a bit each; the end tokens are among them where the text is complete.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), Failure> {
        let mask = self.matcher.compute_mask_or_eos().map_err(|error| Failure::invalid_argument(error.to_string()))?;
        let given = mask.as_slice();
        for (index, word) in words.iter_mut().enumerate() {
            *word = given.get(index).copied().unwrap_or(0);
        }
        Ok(())
    }

    pub fn accept(&mut self, token: u32) -> Result<(), Failure> {
        self.matcher.consume_token(token).map_err(|error| Failure::invalid_argument(error.to_string()))
    }
}

/// A model that may write any number of spaces can do so for ever.
fn with_strict_spaces(mut schema: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("x-guidance").or_insert_with(|| {
            serde_json::json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "})
        });
    }
    schema
}

/// The deepest nesting of brackets, those in strings and classes of characters included.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
