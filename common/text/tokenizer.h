// Text to token ids and back for the vocabulary of a model file: a C++ face of the Rust crates `tokenizers` and
// `minijinja`.
//
// Immutable after creation; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model_file/model_file.h"

namespace kvrelay::text {

struct ChatMessage {
  std::string role;
  std::string content;
};

class Tokenizer {
 public:
  // INVALID_ARGUMENT if the vocabulary is inconsistent (ids outside, merges of unknown tokens, duplicate tokens),
  // UNIMPLEMENTED for a tokenizer model or pre-tokenizer that is not known.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromFile(const model_file::ModelFile& file);
  ~Tokenizer();

  int vocabulary_size() const;
  const std::vector<int32_t>& eos_ids() const;  // end of sequence, end of turn
  std::optional<int32_t> bos_id() const;
  bool adds_bos() const;
  bool has_chat_template() const;
  bool IsControl(int32_t id) const;

  // Ids of raw text as Hugging Face gives them: special tokens recognised, BOS first if the model says so.
  // INVALID_ARGUMENT for broken UTF-8.
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view text) const;
  // Renders the model's chat template with the generation prompt and tokenizes it: what the template itself wrote may
  // be control tokens, what came from the messages never is. INVALID_ARGUMENT with the template's own words if it
  // refuses the messages; FAILED_PRECONDITION if the model has no template, or one that cannot be used: it does not
  // parse, or took too much memory once.
  absl::StatusOr<std::vector<int32_t>> EncodeChat(absl::Span<const ChatMessage> messages) const;

  // Raw bytes of a token; control tokens have none unless `include_control`. REQUIRES: 0 <= id < vocabulary_size().
  std::string TokenBytes(int32_t id, bool include_control) const;
  // Concatenated bytes with invalid UTF-8 replaced by U+FFFD.
  std::string Decode(absl::Span<const int32_t> ids, bool include_control) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// `bytes` with each maximal invalid part replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace kvrelay::text
