#include "common/text/grammar.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/rust/kvrelay_text.h"
#include "common/text/take_status.h"
#include "common/text/vocabulary.h"

namespace kvrelay::text {
Grammar::~Grammar() { kvr_grammar_free(grammar_); }

absl::StatusOr<std::unique_ptr<Grammar>> Grammar::Copy() const {
  kvr_grammar* copy = nullptr;
  kvr_bytes error;
  KV_RETURN_IF_ERROR(TakeStatus(kvr_grammar_copy(grammar_, &copy, &error), error));
  return std::unique_ptr<Grammar>(new Grammar(copy));
}

absl::Status Grammar::Mask(absl::Span<uint32_t> words) {
  kvr_bytes error;
  return TakeStatus(kvr_grammar_mask(grammar_, words.data(), words.size(), &error), error);
}

absl::Status Grammar::Accept(int32_t token) {
  kvr_bytes error;
  return TakeStatus(kvr_grammar_accept(grammar_, static_cast<uint32_t>(token), &error), error);
}

absl::StatusOr<std::unique_ptr<Grammars>> Grammars::FromFile(const model_file::ModelFile& file) {
  KV_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(file));
  std::vector<std::string> tokens(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.named_tokens; ++id) {
    if (vocabulary.kinds[id] != TokenKind::kControl) tokens[id] = BytesOfToken(vocabulary, id);
  }
  std::vector<uint32_t> ends(vocabulary.end_ids.begin(), vocabulary.end_ids.end());
  return std::unique_ptr<Grammars>(new Grammars(std::move(tokens), std::move(ends)));
}

Grammars::~Grammars() { kvr_grammars_free(grammars_); }

void Grammars::Make() const {
  std::vector<kvr_str> tokens;
  for (const std::string& token : tokens_) tokens.push_back({token.data(), token.size()});
  kvr_bytes error;
  problem_ =
      TakeStatus(kvr_grammars_new(tokens.data(), tokens.size(), ends_.data(), ends_.size(), &grammars_, &error), error);
  tokens_ = {};
}

absl::StatusOr<std::unique_ptr<Grammar>> Grammars::Compile(GrammarLanguage language, std::string_view source) const {
  if (source.empty() || source.size() > kGrammarBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is ", source.size(), " bytes long, it must be 1 to ", kGrammarBytesMax));
  }
  std::call_once(made_, [this] { Make(); });
  KV_RETURN_IF_ERROR(problem_);
  static_assert(static_cast<int>(GrammarLanguage::kJsonSchema) == KVR_JSON_SCHEMA &&
                static_cast<int>(GrammarLanguage::kRegex) == KVR_REGEX &&
                static_cast<int>(GrammarLanguage::kLark) == KVR_LARK);
  kvr_grammar* grammar = nullptr;
  kvr_bytes error;
  KV_RETURN_IF_ERROR(TakeStatus(
      kvr_grammar_new(grammars_, static_cast<int32_t>(language), {source.data(), source.size()}, &grammar, &error),
      error));
  return std::unique_ptr<Grammar>(new Grammar(grammar));
}

}  // namespace kvrelay::text
