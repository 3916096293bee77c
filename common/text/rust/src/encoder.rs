//! Token ids of text: added tokens first, then pieces, then byte-level BPE on each piece.

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::normalizers::NFC;
use tokenizers::{Model, NormalizedString, Normalizer};

use crate::pre_tokenizer::PreTokenizer;
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
    pre_tokenizer: PreTokenizer,
    byte_characters: [char; 256],
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
        pre_tokenizer: PreTokenizer,
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
            .ignore_merges(pre_tokenizer.ignores_merges)
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
        Ok(Encoder { bpe, pre_tokenizer, byte_characters: byte_characters(), added, added_search })
    }

    pub fn added(&self) -> &[Added] {
        &self.added
    }

    /// Ids of `text`, control tokens recognised.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, Failure> {
        let mut ids = Vec::new();
        for part in self.parts(text) {
            match part {
                Part::Added(token) => ids.push(token.id as i32),
                Part::Text(text) => self.encode_text(text, &mut ids)?,
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

    /// Appends the ids of text that holds no added token: can never append a control token. A byte that the vocabulary
    /// lacks is left out, as Hugging Face does.
    pub fn encode_text(&self, text: &str, ids: &mut Vec<i32>) -> Result<(), Failure> {
        if self.pre_tokenizer.normalizes {
            let mut normalized = NormalizedString::from(text);
            NFC.normalize(&mut normalized).map_err(|error| Failure::internal(error.to_string()))?;
            return self.encode_normalized(normalized.get(), ids);
        }
        self.encode_normalized(text, ids)
    }

    fn encode_normalized(&self, text: &str, ids: &mut Vec<i32>) -> Result<(), Failure> {
        let mut spelled = String::new();
        self.pre_tokenizer.split(text, &mut |piece| {
            spelled.clear();
            spelled.extend(piece.bytes().map(|byte| self.byte_characters[byte as usize]));
            let tokens = self.bpe.tokenize(&spelled).map_err(|error| Failure::internal(error.to_string()))?;
            ids.extend(tokens.iter().map(|token| token.id as i32));
            Ok(())
        })
    }
}

/// How byte-level BPE spells each byte: itself if printable in Latin-1, else the next free character from U+0100.
fn byte_characters() -> [char; 256] {
    let mut next = 0x100;
    std::array::from_fn(|byte| match byte as u8 {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte as u8),
        _ => {
            next += 1;
            char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    })
}
