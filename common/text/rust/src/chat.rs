//! Token ids of a conversation: what the template writes may be control tokens, what the messages say never is.

use crate::encoder::{Encoder, Part};
use crate::guard::{unused_character, without, Guard};
use crate::template::{Message, Template};
use crate::Failure;

pub fn encode_chat(
    encoder: &Encoder,
    guard: &Guard,
    template: &Template,
    messages: &[Message],
) -> Result<Vec<i32>, Failure> {
    let texts = messages.iter().flat_map(|message| [message.role.as_str(), message.content.as_str()]);
    let breaker = unused_character(texts.chain([template.source()]))?;
    let broken: Vec<Message> = messages.iter().map(|message| guard.break_up(message, breaker)).collect();
    let masked: Vec<Message> = messages.iter().map(|message| guard.mask(message)).collect();
    let [text, masked_text] = template.render([broken, masked])?;

    let parts = encoder.parts(&text);
    if controls(&parts) != controls(&encoder.parts(&masked_text)) {
        return Err(Failure::invalid_argument(
            "the model's chat template would turn text of these messages into control tokens; reword the role or content",
        ));
    }
    let mut ids = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Added(token) => ids.push(token.id as i32),
            // One text for BPE, whoever wrote which part of it.
            Part::Text(text) => encoder.encode_text(&without(text, breaker), index == 0, &mut ids)?,
        }
    }
    Ok(ids)
}

fn controls(parts: &[Part]) -> Vec<u32> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Added(token) if token.control => Some(token.id),
            _ => None,
        })
        .collect()
}
