// Grammars of output over the vocabulary of a model file: a C++ face of the Rust crate `llguidance`.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model_file/model_file.h"

struct kvr_grammars;
struct kvr_grammar;

namespace kvrelay::text {

// JSON schema: what of it is known says the crate; its text is written without free whitespace, as {"a": 1, "b": [2,
// 3]}, unless the schema's own "x-guidance" says otherwise. Regular expression: in the syntax of the Rust crate
// `regex`, the whole text matches. Lark: with `start` as the first rule.
enum class GrammarLanguage { kJsonSchema, kRegex, kLark };

// Longest text of a grammar.
inline constexpr size_t kGrammarBytesMax = 64 << 10;

// How far a text has come in its grammar. Not thread-safe, but for Copy.
class Grammar {
 public:
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  // As the methods of sampling::OutputGrammar of the same names.
  absl::StatusOr<std::unique_ptr<Grammar>> Copy() const;
  absl::Status Mask(absl::Span<uint32_t> words);
  absl::Status Accept(int32_t token);

 private:
  friend class Grammars;
  explicit Grammar(kvr_grammar* grammar) : grammar_(grammar) {}
  kvr_grammar* const grammar_;
};

// Compiles grammars for one vocabulary. Thread-safe.
class Grammars {
 public:
  // Errors of ReadVocabulary.
  static absl::StatusOr<std::unique_ptr<Grammars>> FromFile(const model_file::ModelFile& file);
  ~Grammars();

  // The grammar at its beginning. Takes milliseconds, the first call some hundred more. INVALID_ARGUMENT if the text is
  // wrong, too large, uses what is not known, or if no text fits it; FAILED_PRECONDITION if the model has no end token.
  absl::StatusOr<std::unique_ptr<Grammar>> Compile(GrammarLanguage language, std::string_view source) const;
  // The tokens that end a text.
  const std::vector<uint32_t>& ends() const { return ends_; }

 private:
  Grammars(std::vector<std::string> tokens, std::vector<uint32_t> ends)
      : tokens_(std::move(tokens)), ends_(std::move(ends)) {}
  void Make() const;

  // The vocabulary, laid out for grammars when the first is compiled: most services never see one.
  mutable std::once_flag made_;
  mutable std::vector<std::string> tokens_;  // bytes; of control tokens none
  const std::vector<uint32_t> ends_;
  mutable kvr_grammars* grammars_ = nullptr;
  mutable absl::Status problem_;
};

}  // namespace kvrelay::text
