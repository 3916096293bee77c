//! Text to token ids for BPE vocabularies, byte-level and SentencePiece, chat templates, and grammars of output. `abi` is the
//! only way in (kvrelay_text.h).
//!
//! Every object but a grammar that is followed is immutable once made, so all of it may be used from many threads.

mod abi;
mod chat;
mod encoder;
mod grammar;
mod guard;
mod memory;
mod pre_tokenizer;
mod spelling;
mod template;

/// Why a call failed. The numbers are those of absl::StatusCode.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    pub message: String,
}

impl Failure {
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Failure { code: 3, message: message.into() }
    }

    pub fn failed_precondition(message: impl Into<String>) -> Self {
        Failure { code: 9, message: message.into() }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Failure { code: 13, message: message.into() }
    }
}
