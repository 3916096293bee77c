//! The C interface: kvrelay_text.h says what each function promises.

use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::chat::encode_chat;
use crate::encoder::{Encoder, Kind};
use crate::grammar::{Grammar, Grammars, Language};
use crate::guard::Guard;
use crate::spelling::Spelling;
use crate::template::{Message, Template};
use crate::Failure;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Array<T> {
    data: *mut T,
    size: usize,
}

#[repr(C)]
pub struct Merge {
    left: u32,
    right: u32,
}

#[repr(C)]
pub struct Vocabulary {
    tokens: *const Str,
    kinds: *const u8,
    token_count: usize,
    merges: *const Merge,
    merge_count: usize,
    pre_tokenizer: i32,
    space_prefix: i32,
    ignores_merges: bool,
}

#[repr(C)]
pub struct ChatMessage {
    role: Str,
    content: Str,
}

pub struct EncoderHandle {
    encoder: Encoder,
    guard: Guard,
}

/// # Safety
/// The pointers and counts are those of the C header; so it is for every function below.
#[no_mangle]
pub unsafe extern "C" fn kvr_encoder_new(
    vocabulary: *const Vocabulary,
    encoder: *mut *mut EncoderHandle,
    error: *mut Array<u8>,
) -> i32 {
    let make = || {
        let vocabulary = &*vocabulary;
        let tokens = slice(vocabulary.tokens, vocabulary.token_count)
            .iter()
            .enumerate()
            .map(|(id, token)| utf8(*token, || format!("token {id}")))
            .collect::<Result<Vec<&str>, Failure>>()?;
        let kinds: Vec<Kind> = slice(vocabulary.kinds, vocabulary.token_count)
            .iter()
            .map(|kind| match kind {
                1 => Kind::Control,
                2 => Kind::UserDefined,
                _ => Kind::Plain,
            })
            .collect();
        let merges: Vec<(u32, u32)> =
            slice(vocabulary.merges, vocabulary.merge_count).iter().map(|merge| (merge.left, merge.right)).collect();
        let spelling = Spelling::new(vocabulary.pre_tokenizer, vocabulary.space_prefix)?;
        let encoder = Encoder::new(&tokens, &kinds, &merges, spelling, vocabulary.ignores_merges)?;
        let guard = Guard::new(encoder.added())?;
        Ok(Box::into_raw(Box::new(EncoderHandle { encoder, guard })))
    };
    run(make, encoder, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_encoder_free(encoder: *mut EncoderHandle) {
    free(encoder);
}

#[no_mangle]
pub unsafe extern "C" fn kvr_encode(
    encoder: *const EncoderHandle,
    text: Str,
    ids: *mut Array<i32>,
    error: *mut Array<u8>,
) -> i32 {
    run(|| Ok(given(&(*encoder).encoder.encode(utf8(text, || "the text".into())?)?)), ids, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_template_new(
    source: Str,
    bos: *const Str,
    eos: *const Str,
    template: *mut *mut Template,
    error: *mut Array<u8>,
) -> i32 {
    let make = || {
        let name = || "the chat template".to_string();
        let owned = |text: &Str| utf8(*text, name).map(str::to_string);
        let bos = bos.as_ref().map(owned).transpose()?;
        let eos = eos.as_ref().map(owned).transpose()?;
        Ok(Box::into_raw(Box::new(Template::new(utf8(source, name)?, bos, eos)?)))
    };
    run(make, template, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_template_free(template: *mut Template) {
    free(template);
}

#[no_mangle]
pub unsafe extern "C" fn kvr_encode_chat(
    encoder: *const EncoderHandle,
    template: *const Template,
    messages: *const ChatMessage,
    message_count: usize,
    ids: *mut Array<i32>,
    error: *mut Array<u8>,
) -> i32 {
    let encode = || {
        let messages = slice(messages, message_count)
            .iter()
            .enumerate()
            .map(|(index, message)| {
                Ok(Message {
                    role: utf8(message.role, || format!("the role of message {index}"))?.to_string(),
                    content: utf8(message.content, || format!("the content of message {index}"))?.to_string(),
                })
            })
            .collect::<Result<Vec<Message>, Failure>>()?;
        let EncoderHandle { encoder, guard } = &*encoder;
        Ok(given(&encode_chat(encoder, guard, &*template, &messages)?))
    };
    run(encode, ids, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammars_new(
    tokens: *const Str,
    token_count: usize,
    ends: *const u32,
    end_count: usize,
    grammars: *mut *mut Grammars,
    error: *mut Array<u8>,
) -> i32 {
    let make = || {
        let tokens: Vec<&[u8]> =
            slice(tokens, token_count).iter().map(|token| slice(token.data, token.size)).collect();
        Ok(Box::into_raw(Box::new(Grammars::new(&tokens, slice(ends, end_count))?)))
    };
    run(make, grammars, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammars_free(grammars: *mut Grammars) {
    free(grammars);
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammar_new(
    grammars: *const Grammars,
    language: i32,
    source: Str,
    grammar: *mut *mut Grammar,
    error: *mut Array<u8>,
) -> i32 {
    let make = || {
        let language = match language {
            0 => Language::JsonSchema,
            1 => Language::Regex,
            _ => Language::Lark,
        };
        let source = utf8(source, || "the grammar".to_string())?;
        Ok(Box::into_raw(Box::new((*grammars).compile(language, source)?)))
    };
    run(make, grammar, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammar_copy(
    grammar: *const Grammar,
    copy: *mut *mut Grammar,
    error: *mut Array<u8>,
) -> i32 {
    run(|| Ok(Box::into_raw(Box::new((*grammar).copy()))), copy, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammar_free(grammar: *mut Grammar) {
    free(grammar);
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammar_mask(
    grammar: *mut Grammar,
    words: *mut u32,
    word_count: usize,
    error: *mut Array<u8>,
) -> i32 {
    let mut done = ();
    run(|| (*grammar).mask(std::slice::from_raw_parts_mut(words, word_count)), &mut done, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_grammar_accept(grammar: *mut Grammar, token: u32, error: *mut Array<u8>) -> i32 {
    let mut done = ();
    run(|| (*grammar).accept(token), &mut done, error)
}

#[no_mangle]
pub unsafe extern "C" fn kvr_ids_free(ids: Array<i32>) {
    drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
}

#[no_mangle]
pub unsafe extern "C" fn kvr_bytes_free(bytes: Array<u8>) {
    drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.size)));
}

/// Runs `work`; its value goes to `output`, a failure or panic to `error`.
unsafe fn run<T>(work: impl FnOnce() -> Result<T, Failure>, output: *mut T, error: *mut Array<u8>) -> i32 {
    let result = catch_unwind(AssertUnwindSafe(work));
    match result.unwrap_or_else(|_| Err(Failure::internal("the text library failed; its log has the place"))) {
        Ok(value) => {
            output.write(value);
            0
        }
        Err(failure) => {
            error.write(given(failure.message.as_bytes()));
            failure.code
        }
    }
}

fn given<T: Clone>(values: &[T]) -> Array<T> {
    let values: Box<[T]> = values.into();
    let size = values.len();
    Array { data: Box::into_raw(values) as *mut T, size }
}

unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        drop(Box::from_raw(object));
    }
}

unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

unsafe fn utf8<'a>(text: Str, name: impl Fn() -> String) -> Result<&'a str, Failure> {
    std::str::from_utf8(slice(text.data, text.size)).map_err(|error| {
        Failure::invalid_argument(format!("{} is not UTF-8: bad byte at offset {}", name(), error.valid_up_to()))
    })
}
