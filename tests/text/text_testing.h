// Tokenizers for tests: that of the default model, and small ones whose vocabulary a test makes up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"
#include "tests/testing/gguf_writer.h"

namespace kvrelay::text {

// Of the model that KVRELAY_MODEL names; read once. Ends the process with a clear message if there is none.
const Tokenizer& RealTokenizer();

// token_type numbers of GGUF files.
enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

// A vocabulary to be changed, then loaded. Begins as that of the tiny model: three control tokens, the 256 bytes, some
// merges, pre-tokenizer "smollm".
struct TestVocabulary {
  TestVocabulary();

  // Returns the id.
  int32_t AddToken(const std::string& text, TokenType type);

  testing::GgufWriter Writer() const;
  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() const;
  // Ends the process with the error if it does not load.
  std::unique_ptr<Tokenizer> MustLoad() const;

  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::string pre = "smollm";
  std::string chat_template;  // empty: none
};

// A conversation from braces.
inline std::vector<ChatMessage> Messages(std::vector<ChatMessage> messages) { return messages; }

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const testing::GgufWriter& writer);

}  // namespace kvrelay::text
