// The tokenizer.* metadata of a model file, checked: what the tokenizer is built from.
//
// Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_file/model_file.h"

namespace kvrelay::text {

enum class TokenKind : uint8_t {
  kPlain,        // only BPE makes it
  kControl,      // steers the model; has no text of its own
  kUserDefined,  // text that is one token wherever it stands
};

// How text is cut before BPE. Each value but the last is a pattern that several files name differently; kSentencePiece
// cuts nothing and spells a space as U+2581.
enum class PreTokenizer : uint8_t { kGpt2, kSmollm, kLlama3, kQwen2, kSentencePiece };

// Where SentencePiece vocabularies put a space before the text between two added tokens.
enum class SpacePrefix : uint8_t {
  kNone,
  kEvery,          // before every such text
  kEveryUnspaced,  // before every one that does not begin with a space
  kFirstUnspaced,  // before the one that begins the whole text, unless it begins with a space
};

// Ids of two tokens whose texts BPE joins into a third.
struct Merge {
  uint32_t left, right;
};

struct Vocabulary {
  std::vector<std::string> tokens;  // distinct; plain ones spelled in the byte alphabet, or as pieces; as many as the
                                    // model has embeddings
  size_t named_tokens = 0;          // of these, those that the file names; the rest is padding
  std::vector<TokenKind> kinds;     // [tokens.size()]
  std::vector<Merge> merges;        // best first; neither their parts nor their results are control tokens
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool ignores_merges = false;  // a piece that is a token is that token, whatever the merges say
  SpacePrefix space_prefix = SpacePrefix::kNone;
  std::optional<int32_t> bos_id, eos_id;
  std::vector<int32_t> end_ids;  // eos_id and the other tokens that end a turn; distinct
  bool adds_bos = false;
  std::optional<std::string> chat_template;
};

// INVALID_ARGUMENT if the metadata contradicts itself, UNIMPLEMENTED if it is sound but of a kind that we do not know.
absl::StatusOr<Vocabulary> ReadVocabulary(const model_file::ModelFile& file);

// The bytes that a token stands for: of a control token its name. REQUIRES: id < tokens.size().
std::string BytesOfToken(const Vocabulary& vocabulary, size_t id);

}  // namespace kvrelay::text
