//! Token ids of text: added tokens first, then what lies between them is spelled in pieces, then BPE on each piece.

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::Model;

use crate::spelling::Spelling;
use crate::Failure;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Plain,       // only BPE makes it
    Control,     // never made from text, only recognised whole, where that is allowed
    UserDefined, // recognised whole wherever it stands
}

/// A token that is recognised whole.
pub struct Added {
    pub id: u32,
    pub text: String,
    pub control: bool,
}

/// What `Encoder::parts` cuts text into.
pub enum Part<'t> {
    Added(&'t Added),
    Text(&'t str),
}

pub struct Encoder {
    bpe: BPE,
    spelling: Spelling,
    added: Vec<Added>,
    added_search: AhoCorasick,
}

impl Encoder {
    /// REQUIRES (checked by the caller): `merges` are pairs of indices into `tokens` whose joined text is a token too;
    /// none of the three is a control token.
    pub fn new(
        tokens: &[&str],
        kinds: &[Kind],
        merges: &[(u32, u32)],
        spelling: Spelling,
        ignores_merges: bool,
    ) -> Result<Self, Failure> {
        let with_id = || tokens.iter().zip(kinds).zip(0u32..);
        let vocabulary: Vocab = with_id()
            .filter(|((_, kind), _)| **kind != Kind::Control)
            .map(|((text, _), id)| (text.to_string(), id))
            .collect();
        let merges = merges
            .iter()
            .map(|(left, right)| (tokens[*left as usize].to_string(), tokens[*right as usize].to_string()))
            .collect();
        let bpe = BPE::builder()
            .vocab_and_merges(vocabulary, merges)
            .ignore_merges(ignores_merges)
            .byte_fallback(spelling.falls_back_to_bytes())
            .cache_capacity(0) // shared state that all threads would write
            .build()
            .map_err(|error| Failure::invalid_argument(error.to_string()))?;
        let added: Vec<Added> = with_id()
            .filter(|((_, kind), _)| **kind != Kind::Plain)
            .map(|((text, kind), id)| Added { id, text: text.to_string(), control: *kind == Kind::Control })
            .collect();
        let added_search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(added.iter().map(|token| &token.text))
            .map_err(|error| Failure::invalid_argument(format!("added tokens: {error}")))?;
        Ok(Encoder { bpe, spelling, added, added_search })
    }

    pub fn added(&self) -> &[Added] {
        &self.added
    }

    /// Ids of `text`, control tokens recognised.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, Failure> {
        let mut ids = Vec::new();
        for (index, part) in self.parts(text).iter().enumerate() {
            match part {
                Part::Added(token) => ids.push(token.id as i32),
                Part::Text(text) => self.encode_text(text, index == 0, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// `text` cut at its added tokens: leftmost first, the longest of those.
    pub fn parts<'t>(&'t self, text: &'t str) -> Vec<Part<'t>> {
        let mut parts = Vec::new();
        let mut end = 0;
        for found in self.added_search.find_iter(text) {
            if found.start() > end {
                parts.push(Part::Text(&text[end..found.start()]));
            }
            parts.push(Part::Added(&self.added[found.pattern().as_usize()]));
            end = found.end();
        }
        if end < text.len() {
            parts.push(Part::Text(&text[end..]));
        }
        parts
    }

    /// Appends the ids of text that holds no added token, the first of all or not: can never append a control token. A
    /// byte that the vocabulary lacks is left out, as Hugging Face does.
    pub fn encode_text(&self, text: &str, is_first: bool, ids: &mut Vec<i32>) -> Result<(), Failure> {
        self.spelling.spell(text, is_first, &mut |piece| {
            let tokens = self.bpe.tokenize(piece).map_err(|error| Failure::internal(error.to_string()))?;
            ids.extend(tokens.iter().map(|token| token.id as i32));
            Ok(())
        })
    }
}
