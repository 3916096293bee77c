/* C interface of the Rust library in this folder. Only common/text includes it.
 *
 * Functions that can fail return 0, or the number of an absl::StatusCode and fill `error` with words for a person
 * (freed by kvr_bytes_free). Nothing unwinds out of here: a panic becomes INTERNAL. Objects but a
 * kvr_grammar are immutable once made; calls that do not change one are thread-safe. Pointers given in are read during
 * the call only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvr_encoder kvr_encoder;
typedef struct kvr_template kvr_template;
typedef struct kvr_grammars kvr_grammars;
typedef struct kvr_grammar kvr_grammar;

/* Text given in; checked to be UTF-8. data may be null if size is 0. */
typedef struct {
  const char* data;
  size_t size;
} kvr_str;

/* Given out; owned by the caller. */
typedef struct {
  uint8_t* data;
  size_t size;
} kvr_bytes;
typedef struct {
  int32_t* data;
  size_t size;
} kvr_ids;

enum { KVR_KIND_PLAIN = 0, KVR_KIND_CONTROL = 1, KVR_KIND_USER_DEFINED = 2 };
enum { KVR_PRE_GPT2 = 0, KVR_PRE_SMOLLM = 1, KVR_PRE_LLAMA3 = 2, KVR_PRE_QWEN2 = 3, KVR_PRE_SENTENCEPIECE = 4 };
/* Of KVR_PRE_SENTENCEPIECE: where a space is put before the text between added tokens: nowhere; always; unless it
 * begins with one; unless it begins with one, and only at the very beginning. */
enum { KVR_PREFIX_NONE = 0, KVR_PREFIX_EVERY = 1, KVR_PREFIX_EVERY_UNSPACED = 2, KVR_PREFIX_FIRST_UNSPACED = 3 };

typedef struct {
  uint32_t left, right;
} kvr_merge;

/* REQUIRES: tokens distinct; each merge's tokens and their joined text in `tokens`, none of them a control token. */
typedef struct {
  const kvr_str* tokens; /* [token_count], in the order of their ids */
  const uint8_t* kinds;  /* [token_count], KVR_KIND_ */
  size_t token_count;
  const kvr_merge* merges; /* [merge_count], best first */
  size_t merge_count;
  int32_t pre_tokenizer; /* KVR_PRE_ */
  int32_t space_prefix;  /* KVR_PREFIX_ */
  bool ignores_merges;   /* a piece that is a token is that token */
} kvr_vocabulary;

typedef struct {
  kvr_str role, content;
} kvr_message;

int32_t kvr_encoder_new(const kvr_vocabulary* vocabulary, kvr_encoder** encoder, kvr_bytes* error);
void kvr_encoder_free(kvr_encoder* encoder);

/* Ids of text, control tokens recognised. */
int32_t kvr_encode(const kvr_encoder* encoder, kvr_str text, kvr_ids* ids, kvr_bytes* error);

/* `bos` and `eos` may be null: then the template sees no such variable. */
int32_t kvr_template_new(kvr_str source, const kvr_str* bos, const kvr_str* eos, kvr_template** chat_template,
                         kvr_bytes* error);
void kvr_template_free(kvr_template* chat_template);

/* Ids of the rendered conversation with the generation prompt; text of the messages never becomes a control token. */
int32_t kvr_encode_chat(const kvr_encoder* encoder, const kvr_template* chat_template, const kvr_message* messages,
                        size_t message_count, kvr_ids* ids, kvr_bytes* error);

/* Grammars of output over one vocabulary. `tokens` [token_count]: their bytes, of any kind, none for control tokens;
 * `ends` [end_count]: the tokens that end a text, at least one. FAILED_PRECONDITION without one. */
int32_t kvr_grammars_new(const kvr_str* tokens, size_t token_count, const uint32_t* ends, size_t end_count,
                         kvr_grammars** grammars, kvr_bytes* error);
void kvr_grammars_free(kvr_grammars* grammars);

enum { KVR_JSON_SCHEMA = 0, KVR_REGEX = 1, KVR_LARK = 2 };
/* The grammar at its beginning. INVALID_ARGUMENT if it cannot be used: wrong, too large, of what is not known, or with
 * no text that fits. */
int32_t kvr_grammar_new(const kvr_grammars* grammars, int32_t language, kvr_str source, kvr_grammar** grammar,
                        kvr_bytes* error);
/* One that goes on from the same place. May be called from many threads at once. */
int32_t kvr_grammar_copy(const kvr_grammar* grammar, kvr_grammar** copy, kvr_bytes* error);
void kvr_grammar_free(kvr_grammar* grammar);
/* Bit i of `words` [word_count], from the lowest of the first: whether token i may come next. End tokens may where the
 * text is complete. INVALID_ARGUMENT if that would take too long to find out. */
int32_t kvr_grammar_mask(kvr_grammar* grammar, uint32_t* words, size_t word_count, kvr_bytes* error);
/* `token` came next. INVALID_ARGUMENT if it may not. REQUIRES: not an end token. */
int32_t kvr_grammar_accept(kvr_grammar* grammar, uint32_t token, kvr_bytes* error);

void kvr_ids_free(kvr_ids ids);
void kvr_bytes_free(kvr_bytes bytes);

#ifdef __cplusplus
}
#endif
