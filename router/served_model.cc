#include "router/served_model.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_file/model_file.h"

namespace kvrelay::router {
namespace {

class FileServedModel final : public ServedModel {
 public:
  FileServedModel(ModelFacts facts, std::unique_ptr<text::Tokenizer> tokenizer,
                  std::unique_ptr<text::Grammars> grammars)
      : ServedModel(std::move(facts)), tokenizer_(std::move(tokenizer)), grammars_(std::move(grammars)) {}

  absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text) const override {
    return tokenizer_->EncodeText(text);
  }
  absl::StatusOr<std::vector<int32_t>> EncodeChat(absl::Span<const text::ChatMessage> messages) const override {
    return tokenizer_->EncodeChat(messages);
  }
  std::string TokenBytes(int32_t id, bool include_control) const override {
    return tokenizer_->TokenBytes(id, include_control);
  }
  std::string Decode(absl::Span<const int32_t> ids, bool include_control) const override {
    return tokenizer_->Decode(ids, include_control);
  }
  absl::Status CheckGrammar(text::GrammarLanguage language, const std::string& source) const override {
    return grammars_->Compile(language, source).status();
  }

 private:
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const std::unique_ptr<text::Grammars> grammars_;
};

std::string NameOf(const model_file::ModelFile& file) {
  if (auto title = file.GetString("general.name"); title.ok()) {
    if (std::string slug = ModelSlug(*title); !slug.empty()) return slug;
  }
  return std::filesystem::path(file.path()).stem().string();
}

}  // namespace

std::string ModelSlug(absl::string_view title) {
  std::string slug;
  for (const char c : title) {
    if (absl::ascii_isalnum(c) || (c == '.' && !slug.empty())) {
      slug += absl::ascii_tolower(c);
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && (slug.back() == '-' || slug.back() == '.')) slug.pop_back();
  return slug;
}

absl::StatusOr<std::unique_ptr<ServedModel>> OpenServedModel(const std::string& path, const std::string& name) {
  KV_ASSIGN_OR_RETURN(const std::unique_ptr<model_file::ModelFile> file, model_file::ModelFile::Open(path));
  KV_ASSIGN_OR_RETURN(std::unique_ptr<text::Tokenizer> tokenizer, text::Tokenizer::FromFile(*file));
  ModelFacts facts;
  facts.name = name.empty() ? NameOf(*file) : name;
  KV_ASSIGN_OR_RETURN(facts.architecture, file->GetString("general.architecture"));
  KV_ASSIGN_OR_RETURN(const uint64_t context, file->GetUint(absl::StrCat(facts.architecture, ".context_length")));
  if (context == 0 || context > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": context length ", context, " is not usable"));
  }
  // As in workers: a model with an attention window is served inside of it.
  const uint64_t window = file->GetUint(absl::StrCat(facts.architecture, ".attention.sliding_window")).value_or(0);
  facts.context_length = static_cast<uint32_t>(window > 0 ? std::min(window, context) : context);
  KV_ASSIGN_OR_RETURN(facts.fingerprint, file->Fingerprint());
  facts.vocabulary_size = static_cast<uint32_t>(tokenizer->vocabulary_size());
  facts.eos_ids = tokenizer->eos_ids();
  facts.bos_id = tokenizer->bos_id();
  facts.adds_bos = tokenizer->adds_bos();
  facts.has_chat_template = tokenizer->has_chat_template();
  KV_ASSIGN_OR_RETURN(std::unique_ptr<text::Grammars> grammars, text::Grammars::FromFile(*file));
  return std::make_unique<FileServedModel>(std::move(facts), std::move(tokenizer), std::move(grammars));
}

}  // namespace kvrelay::router
