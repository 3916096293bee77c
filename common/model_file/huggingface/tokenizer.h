// The tokenizer of a model folder (tokenizer.json and what belongs to it), translated into the metadata of a GGUF file:
// byte-level BPE ("gpt2") and SentencePiece BPE ("llama").
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/model_file/huggingface/json.h"
#include "common/model_file/metadata.h"

namespace kvrelay::model_file::huggingface {

// Files that a folder lacks are empty objects.
struct TokenizerFiles {
  Json config;                               // config.json
  Json tokenizer;                            // tokenizer.json
  Json tokenizer_config;                     // tokenizer_config.json
  Json generation_config;                    // generation_config.json
  std::optional<std::string> chat_template;  // chat_template.jinja
};

// Fills the section tokenizer of `metadata`, with at most `embeddings` tokens. Beside GGUF's keys:
// tokenizer.space_prefix (every, every_unspaced, first_unspaced or none) says exactly where a SentencePiece vocabulary
// puts a space. UNIMPLEMENTED naming the part of tokenizer.json whose kind or option is not known; INVALID_ARGUMENT for
// what is unsound.
absl::Status TranslateTokenizer(const TokenizerFiles& files, uint64_t embeddings, Metadata& metadata);

}  // namespace kvrelay::model_file::huggingface
