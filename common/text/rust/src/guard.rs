//! Keeps message text from becoming control tokens once a template has woven it into the prompt.
//!
//! `break_up` puts a character that occurs nowhere else into each control token that a message spells, before the
//! template sees it: "<|im_end|>" becomes "<|im_end|·>". Ordinary text is not touched at all, so trimming, comparing and
//! splitting in the template work as ever. After rendering, control tokens are looked for while the breaker is still in
//! place, and it is taken out of what lies between them.
//!
//! A template may still assemble a token out of harmless parts (by deleting what stands between them, or by writing
//! one half itself). `mask` gives the proof that it did not: a conversation whose visible characters are all replaced
//! must render to the same sequence of control tokens.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, Input};

use crate::encoder::Added;
use crate::template::Message;
use crate::Failure;

/// Roles that are words of the chat format, not text of a user: templates build control tokens around them.
const KNOWN_ROLES: [&str; 6] = ["system", "user", "assistant", "tool", "developer", "function"];

pub struct Guard {
    controls: AhoCorasick,
    mask: char,
    masks_whitespace: bool,
}

impl Guard {
    pub fn new(added: &[Added]) -> Result<Self, Failure> {
        let controls: Vec<&str> = added.iter().filter(|token| token.control).map(|token| token.text.as_str()).collect();
        let is_used = |character: char| controls.iter().any(|text| text.contains(character));
        let mask = ('!'..='~').find(|c| !is_used(*c)).or_else(|| ('\u{100}'..).find(|c| !is_used(*c)));
        Ok(Guard {
            mask: mask.ok_or_else(|| Failure::invalid_argument("control tokens use every character"))?,
            masks_whitespace: controls.iter().any(|text| text.contains(char::is_whitespace)),
            controls: AhoCorasick::new(&controls)
                .map_err(|error| Failure::invalid_argument(format!("control tokens: {error}")))?,
        })
    }

    pub fn break_up(&self, message: &Message, breaker: char) -> Message {
        self.map(message, |text| {
            let mut broken = String::with_capacity(text.len());
            let (mut start, mut from) = (0, 0);
            // The match that ends first is broken before its last character, which breaks every other match that
            // began before that character too: one that ended earlier would have been found first.
            while let Some(found) = self.controls.find(Input::new(text).range(from..)) {
                let last = text[..found.end()].char_indices().next_back().map_or(0, |(position, _)| position);
                if last > found.start() {
                    broken.push_str(&text[start..last]);
                    broken.push(breaker);
                    start = last;
                }
                from = if last > found.start() { last } else { found.end() };
            }
            broken.push_str(&text[start..]);
            broken
        })
    }

    pub fn mask(&self, message: &Message) -> Message {
        self.map(message, |text| {
            let is_kept = |c: char| c.is_whitespace() && !self.masks_whitespace;
            text.chars().map(|c| if is_kept(c) { c } else { self.mask }).collect()
        })
    }

    fn map(&self, message: &Message, change: impl Fn(&str) -> String) -> Message {
        let is_known = KNOWN_ROLES.contains(&message.role.as_str());
        Message {
            role: if is_known { message.role.clone() } else { change(&message.role) },
            content: change(&message.content),
        }
    }
}

/// A character without meaning that none of `texts` holds. There is one as long as they stay below three megabytes.
pub fn unused_character<'t>(texts: impl Iterator<Item = &'t str>) -> Result<char, Failure> {
    let used: std::collections::HashSet<char> = texts.flat_map(str::chars).filter(|c| *c >= '\u{40000}').collect();
    ('\u{f0000}'..=char::MAX)
        .chain('\u{40000}'..'\u{e0000}')
        .find(|c| !used.contains(c))
        .ok_or_else(|| Failure::invalid_argument("the messages use every private character"))
}

pub fn without(text: &str, breaker: char) -> Cow<'_, str> {
    if text.contains(breaker) {
        Cow::Owned(text.replace(breaker, ""))
    } else {
        Cow::Borrowed(text)
    }
}
