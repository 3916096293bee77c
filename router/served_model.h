// What the router knows of the model: facts for requests and clients, and text to token ids and back. Weights are never
// read.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/text/grammar.h"
#include "common/text/tokenizer.h"

namespace kvrelay::router {

struct ModelFacts {
  std::string name;
  std::string architecture;
  std::string fingerprint;
  uint32_t context_length = 0;
  uint32_t vocabulary_size = 0;
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id;
  bool adds_bos = false;
  bool has_chat_template = false;
};

class ServedModel {
 public:
  virtual ~ServedModel() = default;
  const ModelFacts& facts() const { return facts_; }

  // As the methods of text::Tokenizer of the same names.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text) const = 0;
  virtual absl::StatusOr<std::vector<int32_t>> EncodeChat(absl::Span<const text::ChatMessage> messages) const = 0;
  virtual std::string TokenBytes(int32_t id, bool include_control) const = 0;
  virtual std::string Decode(absl::Span<const int32_t> ids, bool include_control) const = 0;
  // OK if outputs can be held to this grammar; errors of text::Grammars::Compile.
  virtual absl::Status CheckGrammar(text::GrammarLanguage language, const std::string& source) const = 0;

 protected:
  explicit ServedModel(ModelFacts facts) : facts_(std::move(facts)) {}

 private:
  const ModelFacts facts_;
};

// Reads a GGUF file or a model folder. `name` empty: made of its general.name, else of the file's own name. Errors of
// ModelFile::Open and Tokenizer::FromFile; INVALID_ARGUMENT if the context length is missing.
absl::StatusOr<std::unique_ptr<ServedModel>> OpenServedModel(const std::string& path, const std::string& name);

// Lower case letters, digits, dots and single dashes of a title: "SmolLM2 135M Instruct" gives "smollm2-135m-instruct".
std::string ModelSlug(absl::string_view title);

}  // namespace kvrelay::router
