//! How text is written in the characters of a vocabulary's tokens: byte by byte in the byte alphabet, or as SentencePiece
//! does, with spaces made visible.

use tokenizers::normalizers::NFC;
use tokenizers::{NormalizedString, Normalizer};

use crate::pre_tokenizer::PreTokenizer;
use crate::Failure;

const SPACE: char = '\u{2581}';

pub enum Spelling {
    Bytes { pre_tokenizer: PreTokenizer, characters: Box<[char; 256]> },
    Pieces { prefix: Prefix },
}

/// KVR_PREFIX_ of the C header.
#[derive(PartialEq)]
pub enum Prefix {
    None,
    Every,
    EveryUnspaced,
    FirstUnspaced,
}

impl Spelling {
    /// Numbers are KVR_PRE_ and KVR_PREFIX_ of the C header.
    pub fn new(pre_tokenizer: i32, prefix: i32) -> Result<Self, Failure> {
        if pre_tokenizer != 4 {
            let pre_tokenizer = PreTokenizer::new(pre_tokenizer)?;
            return Ok(Spelling::Bytes { pre_tokenizer, characters: Box::new(byte_characters()) });
        }
        let prefix = match prefix {
            0 => Prefix::None,
            1 => Prefix::Every,
            2 => Prefix::EveryUnspaced,
            3 => Prefix::FirstUnspaced,
            _ => return Err(Failure::internal(format!("no space prefix {prefix}"))),
        };
        Ok(Spelling::Pieces { prefix })
    }

    /// Whether a character without a token is spelled by the tokens of its bytes.
    pub fn falls_back_to_bytes(&self) -> bool {
        matches!(self, Spelling::Pieces { .. })
    }

    /// Calls `piece` with consecutive parts of `text` as tokens spell them. `is_first`: the whole text begins with it.
    pub fn spell(
        &self,
        text: &str,
        is_first: bool,
        piece: &mut impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Spelling::Pieces { prefix } => piece(&spell_spaces(text, prefix, is_first)),
            Spelling::Bytes { pre_tokenizer, characters } if pre_tokenizer.normalizes => {
                let mut normalized = NormalizedString::from(text);
                NFC.normalize(&mut normalized).map_err(|error| Failure::internal(error.to_string()))?;
                spell_bytes(normalized.get(), pre_tokenizer, characters, piece)
            }
            Spelling::Bytes { pre_tokenizer, characters } => spell_bytes(text, pre_tokenizer, characters, piece),
        }
    }
}

fn spell_spaces(text: &str, prefix: &Prefix, is_first: bool) -> String {
    let is_unspaced = !text.starts_with([' ', SPACE]);
    let wants_space = match prefix {
        Prefix::None => false,
        Prefix::Every => true,
        Prefix::EveryUnspaced => is_unspaced,
        Prefix::FirstUnspaced => is_unspaced && is_first,
    };
    let visible = text.chars().map(|character| if character == ' ' { SPACE } else { character });
    wants_space.then_some(SPACE).into_iter().chain(visible).collect()
}

fn spell_bytes(
    text: &str,
    pre_tokenizer: &PreTokenizer,
    characters: &[char; 256],
    piece: &mut impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut spelled = String::new();
    pre_tokenizer.split(text, &mut |part| {
        spelled.clear();
        spelled.extend(part.bytes().map(|byte| characters[byte as usize]));
        piece(&spelled)
    })
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
