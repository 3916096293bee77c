//! Cuts text into the pieces inside which BPE merges: the patterns with which the merges were learned.

use tokenizers::utils::SysRegex;

use crate::Failure;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

pub struct PreTokenizer {
    pattern: SysRegex,
    single_digits: bool,
    pub normalizes: bool, // NFC first
}

impl PreTokenizer {
    /// `family` is KVR_PRE_ of the C header, of those that have a pattern.
    pub fn new(family: i32) -> Result<Self, Failure> {
        let (pattern, single_digits, normalizes) = match family {
            0 => (GPT2, false, false),
            1 => (GPT2, true, false),
            2 => (LLAMA3, false, false),
            3 => (QWEN2, false, true),
            _ => return Err(Failure::internal(format!("no pre-tokenizer family {family}"))),
        };
        let pattern = SysRegex::new(pattern).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(PreTokenizer { pattern, single_digits, normalizes })
    }

    /// Calls `piece` for consecutive parts that together are `text`.
    pub fn split<'t>(
        &self,
        text: &'t str,
        piece: &mut impl FnMut(&'t str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.single_digits {
            return self.split_by_pattern(text, piece);
        }
        let mut start = 0;
        for (position, character) in text.char_indices().filter(|(_, c)| c.is_numeric()) {
            self.split_by_pattern(&text[start..position], piece)?;
            start = position + character.len_utf8();
            piece(&text[position..start])?;
        }
        self.split_by_pattern(&text[start..], piece)
    }

    fn split_by_pattern<'t>(
        &self,
        text: &'t str,
        piece: &mut impl FnMut(&'t str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut end = 0;
        for (match_start, match_end) in self.pattern.find_iter(text) {
            if match_start > end {
                piece(&text[end..match_start])?;
            }
            piece(&text[match_start..match_end])?;
            end = match_end;
        }
        if end < text.len() {
            piece(&text[end..])?;
        }
        Ok(())
    }
}
